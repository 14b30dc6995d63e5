"""What holds for every engine: `transformers` here, a server, and vLLM (by a stand-in for its protocol)."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from completions_server import Answer, completion, serve

from cpmi_dagster.generation import vllm_engine
from cpmi_dagster.generation.endpoint_engine import EndpointEngine
from cpmi_dagster.generation.engine import Draws, Generation, RolloutEngine, timed_generate
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.token_sampling import cut_at_stop
from cpmi_dagster.generation.transformers_engine import TransformersEngine
from cpmi_dagster.generation.vllm_engine import VllmEngine
from cpmi_dagster.models.language_models import LoadedModel

SAMPLING = Sampling(temperature=1.0, top_p=0.95, top_k=20, max_new_tokens=8)
PROMPTS = ["Problem: 2 + 3\n", "x\n", "A longer question\nStep one\n", "Problem: 2 + 3\n"]


def serve_model(loaded: LoadedModel, body: dict[str, Any]) -> Answer:
    """What a server with a model answers, in vLLM's words if a prompt is too long."""
    names = {"temperature", "top_p", "top_k"} & set(body)
    sampling = Sampling(max_new_tokens=body["max_tokens"], **{name: body[name] for name in names})
    stop = "line" if body.get("stop") else "answer"
    ((one,),) = TransformersEngine(loaded, 1).generate([body["prompt"]], Draws(sampling, 1, body["seed"], stop))
    if not one.tokens:
        return Answer({"error": {"message": "This model's maximum context length is 256 tokens"}}, 400)
    usage = {"prompt_tokens": one.prompt_tokens, "completion_tokens": one.tokens}
    reply = completion(one.text.removesuffix("\n"), "length" if one.truncated else "stop")
    return Answer({**reply, "usage": usage})


def sampling_params(
    *, n, temperature, top_p, top_k, seed, stop, max_tokens, include_stop_str_in_output
) -> SimpleNamespace:
    """Fields of `vllm.SamplingParams` that matter here; others are refused as there."""
    assert include_stop_str_in_output
    sampling = Sampling(temperature=temperature, top_p=top_p, top_k=top_k, max_new_tokens=max_tokens)
    return SimpleNamespace(sampling=sampling, seeds=range(seed, seed + n), stop="line" if stop else "answer")


class LLM:
    """Keeps to the documented protocol of `vllm.LLM` (vLLM 0.30); says nothing about vLLM itself."""

    loaded: LoadedModel

    def __init__(
        self, *, model, revision, tokenizer_revision, dtype, enable_prefix_caching, max_num_seqs, gpu_memory_utilization
    ) -> None:
        assert enable_prefix_caching
        self.llm_engine = SimpleNamespace(model_config=SimpleNamespace(max_model_len=self.loaded.context_length))

    def generate(self, prompts: list[dict[str, list[int]]], sampling_params: list[SimpleNamespace], *, use_tqdm: bool):
        return [self.outputs(*pair) for pair in zip(prompts, sampling_params, strict=True)]

    def outputs(self, prompt: dict[str, list[int]], params: SimpleNamespace) -> SimpleNamespace:
        engine, text = TransformersEngine(self.loaded, 1), self.loaded.tokenizer.decode(prompt["prompt_token_ids"])
        outputs = []
        for index, seed in enumerate(params.seeds):
            ((one,),) = engine.generate([text], Draws(params.sampling, 1, seed, params.stop))
            end = "length" if one.truncated else "stop"
            outputs.append(SimpleNamespace(index=index, text=one.text, token_ids=[0] * one.tokens, finish_reason=end))
        return SimpleNamespace(outputs=outputs[::-1])


@pytest.fixture(params=["transformers", "endpoint", "vllm"])
def any_engine(request, tiny_model, monkeypatch) -> Iterator[RolloutEngine]:
    if request.param == "transformers":
        yield TransformersEngine(tiny_model, 8)
    elif request.param == "endpoint":
        with serve(partial(serve_model, tiny_model)) as server:
            yield EndpointEngine(server.url, "tiny", "tiny@here")
    else:
        monkeypatch.setattr(LLM, "loaded", tiny_model, raising=False)
        monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(LLM=LLM, SamplingParams=sampling_params))
        monkeypatch.setattr(vllm_engine, "load_tokenizer", lambda place, revision: tiny_model.tokenizer)
        yield VllmEngine("tiny", None, "float32", 8, "tiny@vllm")


def drawn(generations: list[list[Generation]]) -> list[list[Generation]]:
    """Generations without what their prompts cost, which depends on what is read together."""
    return [[replace(one, prompt_tokens=0) for one in group] for group in generations]


def test_the_same_seed_gives_the_same_continuations_and_another_seed_others(any_engine):
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first = any_engine.generate(PROMPTS, Draws(SAMPLING, 2, 7))
    assert torch.equal(before, torch.random.get_rng_state())
    any_engine.prepare()
    torch.manual_seed(6)
    assert any_engine.generate(PROMPTS, Draws(SAMPLING, 2, 7)) == first
    assert all(
        one != other for one, other in zip(first, any_engine.generate(PROMPTS, Draws(SAMPLING, 2, 8)), strict=True)
    )


def test_a_prompts_continuations_are_its_own_and_do_not_depend_on_the_others(any_engine):
    together = drawn(any_engine.generate(PROMPTS, Draws(SAMPLING, 3, 0)))
    texts = [one.text for group in together[:3] for one in group]
    assert len(set(texts)) == len(texts) == 9
    for prompt, group in zip(PROMPTS, together, strict=True):
        assert drawn(any_engine.generate([prompt], Draws(SAMPLING, 1, 0, first=2))) == [group[2:]]
    assert any_engine.generate([], Draws(SAMPLING, 2, 0)) == []


def test_equal_prompts_are_asked_once_and_a_prompt_costs_its_tokens_once(any_engine, tokenizer):
    shared, spent = timed_generate(any_engine, PROMPTS, Draws(SAMPLING, 2, 0))
    assert shared[0] == shared[3]
    read = sum(len(tokenizer.encode(prompt)) for prompt in PROMPTS[:3])
    generated = sum(one.tokens for group in shared[:3] for one in group)
    assert (spent.forward_tokens, spent.generated_tokens) == (read + generated, generated)
    assert all(0 < one.tokens <= SAMPLING.max_new_tokens for group in shared for one in group)


def test_a_continuation_that_meets_its_limit_is_truncated_and_has_that_many_tokens(any_engine):
    (group,) = any_engine.generate(["a\n"], Draws(SAMPLING.model_copy(update={"max_new_tokens": 1}), 8, 0))
    assert [one.tokens for one in group] == [1] * 8
    assert sum(one.truncated for one in group) >= 5


def test_a_prompt_without_room_in_the_context_is_empty_and_truncated(any_engine, tiny_model):
    long = "y" * (tiny_model.context_length - SAMPLING.max_new_tokens + 1)
    generations = any_engine.generate([long, PROMPTS[0], long[:-1], ""], Draws(SAMPLING, 2, 0))
    assert generations[0] == generations[3] == [Generation("", 0, truncated=True)] * 2
    assert all(one.tokens for group in generations[1:3] for one in group)


def test_a_line_stop_keeps_the_first_line_with_its_newline(any_engine):
    hot = Sampling(temperature=1e6, top_p=1.0, max_new_tokens=120)
    group = any_engine.generate(["a\n"], Draws(hot, 6, 0, stop="line"))[0]
    assert any(one.text.endswith("\n") and not one.truncated for one in group)
    assert all("\n" not in one.text[:-1] for one in group)
    # and nothing is sampled after it
    assert all(one.tokens < hot.max_new_tokens for one in group if one.text.endswith("\n"))


@pytest.mark.parametrize(
    ("text", "stop", "kept", "truncated"),
    [
        ("2 + 3 = 5. The answer is: 5\n\nProblem", "answer", "2 + 3 = 5. The answer is: 5\n", False),
        ("2 + 3 = 5\n#### 5\nmore", "answer", "2 + 3 = 5\n#### 5\n", False),
        ("The answer is:\n5\nmore", "answer", "The answer is:\n5\nmore", True),
        ("The answer is: 5", "answer", "The answer is: 5", True),
        ("24\n25\n", "line", "24\n", False),
    ],
)
def test_a_text_ends_at_the_line_that_states_the_answer_and_is_truncated_if_its_limit_came_first(
    text, stop, kept, truncated
):
    assert cut_at_stop(text, stop, True, 9, 5) == Generation(kept, 9, truncated, 5)
