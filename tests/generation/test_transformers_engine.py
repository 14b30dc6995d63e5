from dataclasses import replace

import pytest
import torch

from cpmi_dagster.generation.engine import Generation, timed_generate
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.stopping import StopRule
from cpmi_dagster.generation.transformers_engine import TransformersEngine

pytestmark = pytest.mark.slow

SAMPLING = Sampling(temperature=1.0, top_p=0.95, top_k=20, max_new_tokens=24)
PROMPTS = ["Problem: 2 + 3\n", "x\n", "A much longer question, told in many words\nStep one\n", "Problem: 2 + 3\n"]


def drawn(generations: list[list[Generation]]) -> list[list[Generation]]:
    """Generations without what their prompts cost, which depends on what is read together."""
    return [[replace(one, prompt_tokens=0) for one in group] for group in generations]


def test_the_callers_random_state_is_neither_used_nor_moved(engine):
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first = engine(4).generate(PROMPTS, SAMPLING, 2, 0)
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(6)
    assert engine(4).generate(PROMPTS, SAMPLING, 2, 0) == first


def test_results_come_in_the_order_of_the_prompts_whatever_the_batches(engine):
    whole = drawn(engine(64).generate(PROMPTS, SAMPLING, 3, 0))
    for batch_sequences in (2, 5):
        assert drawn(engine(batch_sequences).generate(PROMPTS, SAMPLING, 3, 0)) == whole


def test_more_samples_than_the_batch_has_rows_are_drawn_in_turns(engine):
    in_turns, at_once = (drawn(engine(rows).generate(PROMPTS[:1], SAMPLING, 5, 0)) for rows in (2, 16))
    assert in_turns == at_once


def test_cost_counts_a_prompt_once_for_all_its_samples(engine, tokenizer):
    generations, cost = timed_generate(engine(8), PROMPTS[:2], SAMPLING, 4, 0)
    read = sum(len(tokenizer(prompt)["input_ids"]) for prompt in PROMPTS[:2])
    generated = sum(one.tokens for group in generations for one in group)
    assert (cost.forward_tokens, cost.generated_tokens) == (read + generated, generated)
    assert cost.wall_seconds > 0


def test_the_stop_rule_looks_at_active_rows_only(tiny_model, tokenizer):
    rule = StopRule(tiny_model, "answer")
    ids = [tokenizer(text)["input_ids"] for text in ("The answer is: 12\n", "3 + 9 = 12 makes\n", "The answer is: 1")]
    longest = max(map(len, ids))
    tokens = torch.tensor([row + [5] * (longest - len(row)) for row in ids] + [[0] * longest])
    counts = torch.tensor([*map(len, ids), 1])
    assert rule.ended(tokens, counts, torch.ones(4, dtype=torch.bool)).tolist() == [True, False, False, True]
    assert rule.ended(tokens, counts, torch.zeros(4, dtype=torch.bool)).tolist() == [False] * 4


def test_an_engine_reports_a_prompts_tokens_less_what_it_shares(engine):
    question, step = "Problem: 2 + 3 and so on\n", "2 + 3 = 5\n"
    generations = engine(8).generate([question, question + step], SAMPLING, 2, 0)
    assert [group[0].prompt_tokens for group in generations] == [1, len(question + step)]


def test_a_models_vocabulary_is_decoded_once_however_many_calls_there_are(tiny_model, tokenizer, monkeypatch):
    fresh, decoded = replace(tiny_model), []
    batch_decode = tokenizer.batch_decode

    def counting(texts, **settings):
        decoded.append(len(texts))
        return batch_decode(texts, **settings)

    monkeypatch.setattr(tokenizer, "batch_decode", counting)
    for stop in ("answer", "line", "answer"):
        TransformersEngine(fresh, 4).generate(PROMPTS, SAMPLING, 1, 0, stop)
    assert decoded.count(len(tokenizer)) == 1
    StopRule(replace(tiny_model), "line")
    assert decoded.count(len(tokenizer)) == 2
