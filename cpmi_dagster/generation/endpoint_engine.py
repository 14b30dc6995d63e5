"""Generation at any OpenAI-compatible endpoint: a vLLM, SGLang or llama.cpp server, or a hosted model.

    engine = EndpointEngine(Endpoint("http://127.0.0.1:8000/v1", "Qwen/Qwen3-4B-Base"), identity, tokenizer)
    engine.generate([render_question("What is 2 + 3?")], sampling, samples=8, seed=0)

One request a prompt, `n` = samples, with a seed made of the caller's seed and the prompt.
Texts that a server leaves out (llama-cpp-python gives one, whatever `n`) are asked for one by one, each with the seed
plus its number. Texts are cut where every engine cuts them. Token counts come from:

    prompt tokens      `usage.prompt_tokens`, in the server's cache or not; else the model's tokenizer
    tokens, n = 1      `usage.completion_tokens`; tokens behind the cut were sampled, so they count
    tokens, n > 1      the lengths of `token_ids` or `logprobs.tokens` where the server gives them; else the limit
                       for a text that met it, and for the others the rest of `usage.completion_tokens`, in proportion
                       to the model's tokenizer over the texts as sent: sums are what the server counted. Where
                       that is less than the texts hold (llama.cpp counts one of them), limit and tokenizer alone
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cpmi_dagster.contracts.cost import in_proportion
from cpmi_dagster.generation.completion_replies import choice_tokens, reported_count
from cpmi_dagster.generation.completions_client import Endpoint
from cpmi_dagster.generation.engine import NO_ROOM, Generation, Stop
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.stopping import STOP_STRINGS, cut_at_stop, is_stopped
from cpmi_dagster.generation.token_sampling import prompt_seed
from cpmi_dagster.models.tokens import piece_ids, prompt_ids

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class EndpointEngine:
    """A `RolloutEngine` on a server.

    Attributes:
        endpoint: the server.
        identity: model with its revision, and the endpoint.
        load_tokenizer: the model's tokenizer, for tokens that the server does not count.
    """

    endpoint: Endpoint
    identity: str
    load_tokenizer: "Callable[[], PreTrainedTokenizerBase]"

    def prepare(self) -> None:
        """Nothing: the server has loaded its model."""

    def generate(
        self, prompts: Sequence[str], sampling: Sampling, samples: int, seed: int, stop: Stop = "answer", first: int = 0
    ) -> list[list[Generation]]:
        """Continue every prompt `samples` times; see `RolloutEngine.generate`.

        Raises:
            ModelError: the endpoint refuses, or fails too often.
        """
        asked = [number for number, prompt in enumerate(prompts) if prompt]
        shared = {
            "n": samples,
            "max_tokens": sampling.max_new_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            # left out where they are not used, for servers that do not accept them
            **({"top_k": sampling.top_k} if sampling.top_k else {}),
            **({"stop": list(STOP_STRINGS[stop])} if STOP_STRINGS[stop] else {}),
        }
        requests = [
            {"prompt": prompts[number], "seed": prompt_seed(prompts[number], seed) + first, **shared}
            for number in asked
        ]
        generations = [[NO_ROOM] * samples for _ in prompts]
        for number, drawn in zip(asked, self._drawn(requests, stop), strict=True):
            generations[number] = drawn
        missing = [
            (number, {**request, "n": 1, "seed": request["seed"] + sample})
            for number, request in zip(asked, requests, strict=True)
            for sample in range(len(generations[number]), samples)
        ]
        singles = self._drawn([request for _, request in missing], stop)
        for (number, _), single in zip(missing, singles, strict=True):
            generations[number] += single
        return generations

    def _drawn(self, requests: Sequence[dict[str, Any]], stop: Stop) -> list[list[Generation]]:
        """The texts of every request, as many as the server gave."""
        replies = self.endpoint.complete(requests) if requests else []
        return [self._generations(request, reply, stop) for request, reply in zip(requests, replies, strict=True)]

    def _generations(self, request: dict[str, Any], reply: dict[str, Any] | None, stop: Stop) -> list[Generation]:
        if reply is None:
            return [NO_ROOM] * request["n"]
        prompt_tokens = reported_count(reply, "prompt_tokens")
        if prompt_tokens is None:
            prompt_tokens = len(prompt_ids(self._tokenizer, [request["prompt"]])[0])
        counts = self._token_counts(reply, request["max_tokens"])
        texts = [_text(choice, stop) for choice in reply["choices"]]
        return [
            Generation(
                text=cut_at_stop(text, stop),
                tokens=tokens,
                truncated=choice["finish_reason"] == "length" and not is_stopped(text, stop),
                prompt_tokens=prompt_tokens,
            )
            for text, choice, tokens in zip(texts, reply["choices"], counts, strict=True)
        ]

    def _token_counts(self, reply: dict[str, Any], limit: int) -> list[int]:
        """Tokens sampled for each choice; see the module's table."""
        listed = [choice_tokens(choice) for choice in reply["choices"]]
        known = [count for count in listed if count is not None]
        if len(known) == len(listed):
            return known
        total = reported_count(reply, "completion_tokens")
        if len(listed) == 1 and total is not None:
            return [total]
        met_limit = [choice["finish_reason"] == "length" for choice in reply["choices"]]
        ids = piece_ids(self._tokenizer, [choice["text"] for choice in reply["choices"]])
        shown = [len(ids[choice["text"]]) for choice in reply["choices"]]
        counted = [limit if met else min(limit, count + 1) for count, met in zip(shown, met_limit, strict=True)]
        # llama.cpp reports the tokens of the first of n texts alone
        return counted if total is None or total < sum(shown) else _shared_out(total, counted, met_limit)

    @cached_property
    def _tokenizer(self) -> "PreTrainedTokenizerBase":
        return self.load_tokenizer()


def _text(choice: dict[str, Any], stop: Stop) -> str:
    """The text with the stop string that the server has cut off its end.

    vLLM says in `stop_reason` what ended a text; where a server does not, it was the stop string.
    """
    text = choice["text"]
    for string in STOP_STRINGS[stop]:
        if choice["finish_reason"] == "stop" and choice.get("stop_reason", string) == string and string not in text:
            return text + string
    return text


def _shared_out(total: int, counted: Sequence[int], exact: Sequence[bool]) -> list[int]:
    """Whole numbers that add up to `total`: those that are exact, the others in proportion to what was counted."""
    rest = total - sum(count for count, is_exact in zip(counted, exact, strict=True) if is_exact)
    if rest < 0 or all(exact):
        return in_proportion(total, counted)
    shares = in_proportion(rest, [0 if is_exact else count for count, is_exact in zip(counted, exact, strict=True)])
    return [count if is_exact else share for count, share, is_exact in zip(counted, shares, exact, strict=True)]
