"""A stand-in for the package `vllm`, which is too large to install for tests: its documented signatures only.

It shows that `VllmEngine` keeps to the protocol of `vllm.LLM`, `SamplingParams`, `RequestOutput` and
`CompletionOutput` (vLLM 0.30); it says nothing about vLLM itself. The texts come from a small model.
"""

from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

from completions_server import samples_of

from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.models.language_models import LoadedModel


@dataclass
class SamplingParams:
    """Fields of `vllm.SamplingParams` that matter here, with its defaults; others are refused as there."""

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    stop: str | list[str] | None = None
    max_tokens: int | None = 16
    include_stop_str_in_output: bool = False


def stand_in(loaded: LoadedModel, made: list[dict[str, Any]]) -> ModuleType:
    """A module `vllm` whose `LLM` runs a small model; `made` gets the arguments of every `LLM` that is built."""

    class LLM:
        def __init__(
            self,
            model: str,
            *,
            tokenizer: str | None = None,
            dtype: str = "auto",
            revision: str | None = None,
            tokenizer_revision: str | None = None,
            seed: int = 0,
            gpu_memory_utilization: float = 0.9,
            enable_prefix_caching: bool | None = None,
            max_num_seqs: int | None = None,
        ) -> None:
            made.append({"model": model, "enable_prefix_caching": enable_prefix_caching, "max_num_seqs": max_num_seqs})
            self.llm_engine = SimpleNamespace(model_config=SimpleNamespace(max_model_len=loaded.context_length))

        def generate(
            self, prompts: list[dict[str, list[int]]], sampling_params: list[SamplingParams], *, use_tqdm: bool = True
        ) -> list[Any]:
            pairs = zip(prompts, sampling_params, strict=True)
            return [SimpleNamespace(outputs=self._outputs(prompt, params)) for prompt, params in pairs]

        def _outputs(self, prompt: dict[str, list[int]], params: SamplingParams) -> list[SimpleNamespace]:
            assert params.max_tokens is not None and params.seed is not None
            sampling = Sampling(
                temperature=params.temperature,
                top_p=params.top_p,
                top_k=params.top_k,
                max_new_tokens=params.max_tokens,
            )
            stop = [params.stop] if isinstance(params.stop, str) else params.stop or []
            drawn = samples_of(loaded, tuple(prompt["prompt_token_ids"]), sampling, params.n, params.seed, stop)
            kept = [one.text + (one.stop_reason or "") * params.include_stop_str_in_output for one in drawn]
            return [
                SimpleNamespace(index=index, text=text, token_ids=one.tokens, finish_reason=one.finish_reason)
                for index, (one, text) in enumerate(zip(drawn, kept, strict=True))
            ]

    module = ModuleType("vllm")
    module.LLM = LLM  # pyright: ignore[reportAttributeAccessIssue]
    module.SamplingParams = SamplingParams  # pyright: ignore[reportAttributeAccessIssue]
    return module
