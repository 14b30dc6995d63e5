"""Generation with a `transformers` model.

    engine = TransformersEngine(load_language_model("miniature:labeler"), batch_sequences=256)
    engine.generate([render_question("What is 2 + 3?")], Draws(sampling, samples=8, seed=0))

Prompts are tokenised as by the scorer: no special tokens but those that the tokenizer puts before every text. A prompt
that leaves no room for `max_new_tokens` in the context has empty, truncated generations. A prompt that is a prefix of
another is neither read nor counted again.

    256 texts at once    a b c d    memory runs out when a has ended
    128 texts at once    b c d      start again with the same random numbers, so they do not change
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpmi_dagster.errors import ModelError, first_line
from cpmi_dagster.generation.engine import NO_ROOM, Draws, Generation, SamplingWork
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.token_sampling import StopRule, cut_at_stop, uniform_numbers
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.models.memory import is_out_of_memory, release_memory, sampled_rows
from cpmi_dagster.models.tokens import TokenIds, find_longest_texts, prompt_ids

if TYPE_CHECKING:
    import torch

    from cpmi_dagster.generation.decoding import Continuation

logger = logging.getLogger(__name__)

PREPARED, BATCH = "prepared to generate", "texts at once"
"""Keys of `LoadedModel.cache`."""
FIRST_LINE, FIRST_REPEATS = "One and one is two.\n", (1, 50)
FIRST_DRAWS = Draws(Sampling(temperature=1.0, top_p=1.0, top_k=0, max_new_tokens=4), samples=2, seed=0)


@dataclass(frozen=True)
class TransformersEngine:
    """A `RolloutEngine` on one loaded model.

    Attributes:
        batch_sequences: continuations in a batch; fewer if they do not fit the memory of a CPU, halved if it runs out.
    """

    model: LoadedModel
    batch_sequences: int

    @property
    def identity(self) -> str:
        """Model id with its revision or weights hash."""
        return self.model.identity

    def prepare(self) -> None:
        """Continue a short and a long prompt, once per loaded model; see `RolloutEngine.prepare`."""
        if PREPARED not in self.model.cache:
            self.model.cache[PREPARED] = True
            for repeats in FIRST_REPEATS:
                self.generate([FIRST_LINE * repeats], FIRST_DRAWS)

    def generate(
        self, prompts: Sequence[str], draws: Draws, work: SamplingWork | None = None
    ) -> list[list[Generation]]:
        """Continue every prompt; see `RolloutEngine.generate`.

        Raises:
            ModelError: the model has other layers than attention, or memory is too small for one continuation.
        """
        import torch

        room, tokenizer = self.model.context_length, self.model.tokenizer
        samples, seed, limit = draws.samples, draws.seed, draws.sampling.max_new_tokens
        ids = prompt_ids(tokenizer, prompts)
        asked = [number for number, tokens in enumerate(ids) if 0 < len(tokens) <= room - limit]
        generations = [[NO_ROOM] * samples for _ in prompts]
        if not asked:
            return generations
        numbers = torch.cat([uniform_numbers(prompts[number], seed, samples, limit, draws.first) for number in asked])

        def note(place: int) -> None:
            if work:
                work.ended(prompts[asked[place // samples]])

        drawn = self._draw([ids[number] for number in asked for _ in range(samples)], numbers, draws, note)
        texts = find_longest_texts(ids[number] for number in asked)
        for place, number in enumerate(asked):
            read = len(ids[number]) if texts[ids[number]] == ids[number] else 1
            for sample in range(samples):
                _, tokens, ended = drawn[place * samples + sample]
                (text,) = tokenizer.batch_decode([tokens], skip_special_tokens=True)
                generations[number][sample] = cut_at_stop(text, draws.stop, not ended, len(tokens), read)
        return generations

    def _draw(
        self, prompts: Sequence[TokenIds], numbers: "torch.Tensor", draws: Draws, note: Callable[[int], None]
    ) -> "dict[int, Continuation]":
        """The continuation of every prompt; the batch is halved whenever memory runs out."""
        from cpmi_dagster.generation.decoding import decode

        rule, drawn = StopRule(self.model, draws.stop), {}
        longest = max(map(len, prompts)) + draws.sampling.max_new_tokens
        model = self.model.model
        fitting = sampled_rows(model.config, model.dtype.itemsize, longest, model.device)
        while left := [number for number in range(len(prompts)) if number not in drawn]:
            rows = min(self.model.cache.get(BATCH, self.batch_sequences), len(left), fitting or len(left))
            try:
                asked = [prompts[number] for number in left]
                for continuation in decode(self.model.model, asked, numbers[left], draws.sampling, rule, rows):
                    drawn[left[continuation.owner]] = continuation
                    note(left[continuation.owner])
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                shortage = first_line(error)
            else:
                break
            release_memory(self.model.device)
            if rows == 1:
                raise ModelError(
                    f"{self.identity} has too little memory for a single continuation of a prompt of "
                    f"{max(len(prompts[number]) for number in left)} tokens at most ({shortage}); lower "
                    "`max_new_tokens`, use a smaller dtype or `device_map: auto` over several GPUs, or sample with "
                    "another engine (docs/engines.md)"
                )
            message = "%s: no memory for %d continuations at once (%s); continuing with %d"
            logger.warning(message, self.identity, rows, shortage, rows // 2)
            self.model.cache[BATCH] = rows // 2
        return drawn
