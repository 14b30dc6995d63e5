"""Generation with a `transformers` model.

    engine = TransformersEngine(load_language_model("miniature:labeler"), batch_sequences=256)
    engine.generate([render_question("What is 2 + 3?")], sampling, samples=8, seed=0)

Prompts are tokenised as the scorer does: no special tokens but a BOS where the tokenizer adds one by default. A prompt
that leaves no room for `max_new_tokens` in the model's context is not an error: its generations are empty and marked
as truncated. What a prompt shares with an earlier one of the call is not read again, nor counted.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cpmi_dagster.language_models import LoadedModel
from cpmi_dagster.rollouts.engine import NO_ROOM, Generation, Stop
from cpmi_dagster.rollouts.shared_beginnings import Beginning, shared_beginnings
from cpmi_dagster.rollouts.stopping import StopRule, cut_at_stop
from cpmi_dagster.rollouts.token_sampling import uniform_numbers
from cpmi_dagster.scoring.tokens import TokenIds, piece_ids, start_ids
from cpmi_dagster.settings import Sampling

if TYPE_CHECKING:
    from cpmi_dagster.rollouts.decoding import Continuation, Start


class TransformersEngine:
    """A `RolloutEngine` on one loaded model.

    Args:
        model: the model, on its device.
        batch_sequences: continuations sampled at the same time; memory grows with it.
    """

    def __init__(self, model: LoadedModel, batch_sequences: int) -> None:
        self._model = model
        self._batch_sequences = batch_sequences

    @property
    def identity(self) -> str:
        """Model id with its revision or weights hash."""
        return self._model.identity

    def generate(
        self, prompts: Sequence[str], sampling: Sampling, samples: int, seed: int, stop: Stop = "answer"
    ) -> list[list[Generation]]:
        """Continue every prompt `samples` times; see `RolloutEngine.generate`.

        Raises:
            ModelError: the model has layers other than attention.
        """
        from cpmi_dagster.rollouts.decoding import Decoder

        starts = self._starts(prompts, sampling, samples, seed)
        beginnings = self._beginnings(starts)
        read: Counter[int] = Counter()
        for start, beginning in zip(starts, beginnings, strict=True):
            read[start.owners[0] // samples] += len(start.prompt) - (beginning.length if beginning else 0)
        rule = StopRule(self._model.model, self._model.tokenizer, stop)
        decoder = Decoder(self._model.model, sampling, rule, self._batch_sequences)
        generations = [NO_ROOM] * (len(prompts) * samples)
        for continuation in decoder.run(starts, beginnings) if starts else ():
            prompt_tokens = read[continuation.owner // samples]
            generations[continuation.owner] = self._generation(continuation, prompt_tokens, stop)
        return [generations[first : first + samples] for first in range(0, len(generations), samples)]

    def _token_ids(self, prompts: Sequence[str]) -> list[TokenIds]:
        pieces = piece_ids(self._model.tokenizer, prompts)
        start = start_ids(self._model.tokenizer)
        return [start + pieces[prompt] for prompt in prompts]

    def _beginnings(self, starts: "Sequence[Start]") -> list[Beginning | None]:
        """What each prompt takes from an earlier one; what is kept for it is no more than the batch itself."""
        prompts = [start.prompt for start in starts]
        return shared_beginnings(prompts, self._batch_sequences * max(map(len, prompts), default=0))

    def _starts(self, prompts: Sequence[str], sampling: Sampling, samples: int, seed: int) -> "list[Start]":
        """What is to be decoded, longest prompt first."""
        from cpmi_dagster.rollouts.decoding import Start

        room = self._model.context_length - sampling.max_new_tokens
        seen: Counter[str] = Counter()
        starts = []
        for index, (prompt, tokens) in enumerate(zip(prompts, self._token_ids(prompts), strict=True)):
            numbers = uniform_numbers(prompt, seen[prompt], seed, samples, sampling.max_new_tokens)
            seen[prompt] += 1
            for first in range(0, samples, self._batch_sequences) if 0 < len(tokens) <= room else ():
                chosen = range(samples)[first : first + self._batch_sequences]
                owners = [index * samples + sample for sample in chosen]
                starts.append(Start(tokens, owners, numbers[chosen.start : chosen.stop]))
        return sorted(starts, key=lambda start: -len(start.prompt))

    def _generation(self, continuation: "Continuation", prompt_tokens: int, stop: Stop) -> Generation:
        (text,) = self._model.tokenizer.batch_decode([continuation.tokens], skip_special_tokens=True)
        return Generation(cut_at_stop(text, stop), len(continuation.tokens), not continuation.ended, prompt_tokens)
