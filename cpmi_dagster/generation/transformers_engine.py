"""Generation with a `transformers` model.

    engine = TransformersEngine(load_language_model("miniature:labeler"), batch_sequences=256)
    engine.generate([render_question("What is 2 + 3?")], sampling, samples=8, seed=0)

Prompts are tokenised as the scorer does: no special tokens but a BOS where the tokenizer adds one by default. A prompt
that leaves no room for `max_new_tokens` in the model's context is not an error: its generations are empty and marked
as truncated. What a prompt shares with an earlier one of the call is neither read nor counted again.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from cpmi_dagster.generation.engine import NO_ROOM, Generation, Stop
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.stopping import cut_at_stop
from cpmi_dagster.generation.token_sampling import uniform_numbers
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.models.tokens import prompt_ids

PREPARED = "prepared to generate"
"""Key of `LoadedModel.remembered`."""
FIRST_LINE, FIRST_REPEATS = "One and one is two.\n", (1, 50)
FIRST_SAMPLING = Sampling(temperature=1.0, top_p=1.0, top_k=0, max_new_tokens=4)


@dataclass(frozen=True)
class TransformersEngine:
    """A `RolloutEngine` on one loaded model.

    Attributes:
        model: the model, on its device.
        batch_sequences: continuations sampled at the same time, fewer where memory runs out.
    """

    model: LoadedModel
    batch_sequences: int

    @property
    def identity(self) -> str:
        """Model id with its revision or weights hash."""
        return self.model.identity

    def prepare(self) -> None:
        """Continue a short and a long prompt, once for each loaded model; see `RolloutEngine.prepare`."""
        if PREPARED not in self.model.remembered:
            self.model.remembered[PREPARED] = True
            for repeats in FIRST_REPEATS:
                self.generate([FIRST_LINE * repeats], FIRST_SAMPLING, samples=2, seed=0)

    def generate(
        self, prompts: Sequence[str], sampling: Sampling, samples: int, seed: int, stop: Stop = "answer", first: int = 0
    ) -> list[list[Generation]]:
        """Continue every prompt `samples` times; see `RolloutEngine.generate`.

        Raises:
            ModelError: the model has layers other than attention, or there is no memory for a single continuation.
        """
        from cpmi_dagster.generation.decoding import Start
        from cpmi_dagster.generation.fitting_batches import decode_fitting

        generations = [NO_ROOM] * (len(prompts) * samples)
        room, tokenizer = self.model.context_length - sampling.max_new_tokens, self.model.tokenizer
        tokenized = zip(prompts, prompt_ids(tokenizer, prompts), strict=True)
        starts = [
            Start(
                tokens,
                range(index * samples, (index + 1) * samples),
                uniform_numbers(prompt, seed, samples, sampling.max_new_tokens, first),
            )
            for index, (prompt, tokens) in enumerate(tokenized)
            if 0 < len(tokens) <= room
        ]
        if starts:
            starts.sort(key=lambda start: -len(start.prompt))
            drawn = decode_fitting(self.model, starts, sampling, stop, self.batch_sequences)
            read: Counter[int] = Counter()
            for owner, tokens in drawn.read.items():
                read[owner // samples] += tokens
            for owner, tokens, ended in drawn.continuations:
                (text,) = tokenizer.batch_decode([tokens], skip_special_tokens=True)
                prompt_tokens = read[owner // samples]
                generations[owner] = Generation(cut_at_stop(text, stop), len(tokens), not ended, prompt_tokens)
        return [generations[start : start + samples] for start in range(0, len(generations), samples)]
