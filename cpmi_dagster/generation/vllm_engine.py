"""Generation with vLLM in this process (extra `[vllm]`), prefix caching on.

    engine = VllmEngine("Qwen/Qwen3-4B-Base", "49e3418…", "bfloat16", batch_sequences=256, identity=identity)
    engine.generate([render_question("What is 2 + 3?")], Draws(sampling, samples=8, seed=0))

Prompts are tokenised as by the scorer. vLLM stops at a string, not at a line that states the answer: with `stop =
"answer"` it samples to the end of text or the limit, and the text is cut here. Tokens after the cut count, and so does
the whole prompt, cached or not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cpmi_dagster.errors import ModelError
from cpmi_dagster.generation.engine import NO_ROOM, Draws, Generation, SamplingWork
from cpmi_dagster.generation.token_sampling import cut_at_stop, prompt_seed
from cpmi_dagster.models.language_models import load_tokenizer, model_folder
from cpmi_dagster.models.tokens import prompt_ids


@dataclass(frozen=True)
class VllmEngine:
    """A `RolloutEngine` on `vllm.LLM`, which is loaded on first use.

    Attributes:
        name: local folder, `miniature:NAME`, or hub id.
        revision: hub commit.
        dtype: auto, float32, bfloat16 or float16.
        batch_sequences: most texts in progress at once.
        identity: model id, revision or weights hash, and `vllm`.
        gpu_memory_share: share of the GPU's memory for weights and cache.
    """

    name: str
    revision: str | None
    dtype: str
    batch_sequences: int
    identity: str
    gpu_memory_share: float = 0.9

    def prepare(self) -> None:
        """Load the model; see `RolloutEngine.prepare`."""
        _ = self._tokenizer, self._llm

    def generate(
        self, prompts: Sequence[str], draws: Draws, work: SamplingWork | None = None
    ) -> list[list[Generation]]:
        """Continue every prompt; see `RolloutEngine.generate`.

        Raises:
            ModelError: vLLM is not installed, or cannot load the model.
        """
        (vllm, llm), sampling, stop = self._llm, draws.sampling, draws.stop
        ids = prompt_ids(self._tokenizer, prompts)
        room = int(llm.llm_engine.model_config.max_model_len) - sampling.max_new_tokens
        generations = [[NO_ROOM] * draws.samples for _ in prompts]
        asked = [number for number, tokens in enumerate(ids) if 0 < len(tokens) <= room]
        settings = [
            vllm.SamplingParams(
                n=draws.samples,
                seed=prompt_seed(prompts[number], draws.seed) + draws.first,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                top_k=sampling.top_k,
                max_tokens=sampling.max_new_tokens,
                stop="\n" if stop == "line" else None,
                include_stop_str_in_output=True,
            )
            for number in asked
        ]
        read = [{"prompt_token_ids": list(ids[number])} for number in asked]
        for number, output in zip(asked, llm.generate(read, settings, use_tqdm=False) if asked else [], strict=True):
            generations[number] = [
                cut_at_stop(text.text, stop, text.finish_reason == "length", len(text.token_ids), len(ids[number]))
                for text in sorted(output.outputs, key=lambda text: text.index)
            ]
            if work:
                for _ in range(draws.samples):
                    work.ended(prompts[number])
        return generations

    @cached_property
    def _tokenizer(self) -> Any:
        return load_tokenizer(model_folder(self.name), self.revision)

    @cached_property
    def _llm(self) -> tuple[Any, Any]:
        """The package and the loaded model."""
        place = model_folder(self.name)
        try:
            import vllm  # pyright: ignore[reportMissingImports]

            return vllm, vllm.LLM(
                model=place,
                revision=self.revision,
                tokenizer_revision=self.revision,
                dtype=self.dtype,
                enable_prefix_caching=True,
                max_num_seqs=self.batch_sequences,
                gpu_memory_utilization=self.gpu_memory_share,
            )
        except ImportError as error:
            raise ModelError(
                f"`engine: vllm` needs the package vllm ({error}); install the extra, `pip install "
                "cpmi-dagster[vllm]`, or run a vLLM server and use `engine: endpoint`"
            ) from error
        except (OSError, ValueError, RuntimeError) as error:
            raise ModelError(f"vLLM cannot load `{place}`: {' '.join(str(error).split())}") from error
