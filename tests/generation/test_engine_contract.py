"""What holds for every engine: `transformers` here, a server, and vLLM (by a stand-in for its protocol)."""

import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
from completions_server import model_answers, serve
from vllm_stand_in import stand_in

from cpmi_dagster.errors import ModelError
from cpmi_dagster.generation import vllm_engine
from cpmi_dagster.generation.endpoint_engine import EndpointEngine
from cpmi_dagster.generation.engine import Generation, RolloutEngine, timed_generate
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.transformers_engine import TransformersEngine
from cpmi_dagster.generation.vllm_engine import VllmEngine

SAMPLING = Sampling(temperature=1.0, top_p=0.95, top_k=20, max_new_tokens=12)
PROMPTS = ["Problem: 2 + 3\n", "x\n", "A longer question\nStep one\n", "Problem: 2 + 3\n"]

pytestmark = pytest.mark.parametrize("tiny_model", ["qwen3"], indirect=True)


@pytest.fixture(params=["transformers", "endpoint", "vllm"])
def any_engine(request, tiny_model, monkeypatch) -> Iterator[RolloutEngine]:
    if request.param == "transformers":
        yield TransformersEngine(tiny_model, 8)
    elif request.param == "endpoint":
        with serve(model_answers(tiny_model)) as server:
            yield EndpointEngine(server.url, "tiny", "tiny@here")
    else:
        monkeypatch.setitem(sys.modules, "vllm", stand_in(tiny_model, []))
        monkeypatch.setattr(vllm_engine, "load_tokenizer", lambda place, revision: tiny_model.tokenizer)
        yield VllmEngine("tiny", None, "float32", 8, "tiny@vllm")


def drawn(generations: list[list[Generation]]) -> list[list[Generation]]:
    return [[replace(one, prompt_tokens=0) for one in group] for group in generations]


def test_the_same_seed_gives_the_same_continuations_and_another_seed_others(any_engine):
    first, second, other = (any_engine.generate(PROMPTS, SAMPLING, 2, seed) for seed in (7, 7, 8))
    assert first == second
    assert all(one != two for one, two in zip(first, other, strict=True))


def test_what_is_drawn_does_not_depend_on_whether_the_engine_was_prepared(any_engine):
    before = any_engine.generate(PROMPTS, SAMPLING, 2, 7)
    any_engine.prepare()
    assert any_engine.generate(PROMPTS, SAMPLING, 2, 7) == before


def test_every_prompt_and_sample_has_continuations_of_its_own(any_engine):
    generations = any_engine.generate(PROMPTS[:3], SAMPLING, 3, 0)
    texts = [one.text for group in generations for one in group]
    assert [len(group) for group in generations] == [3] * 3
    assert len(set(texts)) == len(texts)


def test_a_prompts_continuations_do_not_depend_on_the_others_and_come_in_their_order(any_engine):
    together = any_engine.generate(PROMPTS, SAMPLING, 2, 0)
    for place, prompt in enumerate(PROMPTS):
        assert drawn(any_engine.generate([prompt], SAMPLING, 2, 0))[0] == drawn(together)[place]


def test_equal_prompts_are_asked_once_and_share_their_continuations(any_engine):
    shared, cost = timed_generate(any_engine, PROMPTS, SAMPLING, 2, 0)
    assert shared[0] == shared[3]
    _, alone = timed_generate(any_engine, PROMPTS[:3], SAMPLING, 2, 0)
    assert cost.forward_tokens == alone.forward_tokens


def test_a_continuation_that_meets_its_limit_is_truncated_and_has_that_many_tokens(any_engine):
    (group,) = any_engine.generate(["a\n"], SAMPLING.model_copy(update={"max_new_tokens": 1}), 8, 0)
    assert [one.tokens for one in group] == [1] * 8
    assert sum(one.truncated for one in group) >= 5


def test_a_prompt_without_room_in_the_context_is_empty_and_truncated(any_engine, tiny_model):
    long = "y" * (tiny_model.context_length - SAMPLING.max_new_tokens + 1)
    generations = any_engine.generate([long, PROMPTS[0], long[:-1], ""], SAMPLING, 2, 0)
    assert generations[0] == generations[3] == [Generation("", 0, truncated=True)] * 2
    assert all(one.tokens for group in generations[1:3] for one in group)


def test_a_line_stop_keeps_the_first_line_with_its_newline(any_engine):
    hot = Sampling(temperature=1e6, top_p=1.0, max_new_tokens=150)
    group = any_engine.generate(["a\n"], hot, 12, 0, stop="line")[0]
    assert any(one.text.endswith("\n") and not one.truncated for one in group)
    assert all("\n" not in one.text[:-1] for one in group)
    assert all(one.truncated or one.text.endswith("\n") or one.tokens for one in group)


def test_a_prompts_tokens_are_counted_for_all_its_samples_together(any_engine, tokenizer):
    generations = any_engine.generate(PROMPTS[:3], SAMPLING, 3, 0)
    assert [group[0].prompt_tokens for group in generations] == [len(tokenizer.encode(one)) for one in PROMPTS[:3]]
    assert all(0 < one.tokens <= SAMPLING.max_new_tokens for group in generations for one in group)


def test_no_prompts_give_no_generations(any_engine):
    assert any_engine.generate([], SAMPLING, 2, 0) == []


def test_vllm_is_loaded_once_with_prefix_caching(tiny_model, monkeypatch):
    made: list[dict] = []
    monkeypatch.setitem(sys.modules, "vllm", stand_in(tiny_model, made))
    monkeypatch.setattr(vllm_engine, "load_tokenizer", lambda place, revision: tiny_model.tokenizer)
    engine = VllmEngine("tiny", None, "float32", 16, "tiny@vllm")
    assert made == []
    for _ in range(2):
        engine.generate(["a\n"], SAMPLING, 1, 0)
    assert made == [{"model": "tiny", "enable_prefix_caching": True, "max_num_seqs": 16}]


def test_a_missing_vllm_names_the_extra(tiny_model, monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    monkeypatch.setattr(vllm_engine, "load_tokenizer", lambda place, revision: tiny_model.tokenizer)
    with pytest.raises(ModelError, match=r"cpmi-dagster\[vllm\]"):
        VllmEngine("tiny", None, "float32", 16, "tiny@vllm").generate(["a\n"], SAMPLING, 1, 0)
