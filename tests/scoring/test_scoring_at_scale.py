"""Windows, budgets, shortages of memory, half precision: what must not change a value or lose a trajectory."""

import os
from copy import deepcopy
from dataclasses import replace
from itertools import combinations
from threading import Event
from types import SimpleNamespace

import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scoring_examples import frame_of, negatives_of

from cpmi_dagster.errors import ModelError
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.planning.counting import scored_tokens
from cpmi_dagster.planning.hardware import PlannedModel, known_hardware
from cpmi_dagster.reading.row_reader import RowReader
from cpmi_dagster.reading.tree_reader import LONGEST_ROW, bytes_per_token, row_budget
from cpmi_dagster.scoring.answer_trees import LARGEST_WINDOW, WINDOW_TRAJECTORIES, ahead, slices
from cpmi_dagster.scoring.logprobs import answer_logprobs, refusals
from cpmi_dagster.scoring.settings import Scoring

pytestmark = pytest.mark.slow

SCORING = Scoring(templates=2)


def largest_difference(left, right):
    keys = ["trajectory_id", "template", "context", "step_index", "answer_rank"]
    assert left.select(keys).equals(right.select(keys))
    return ((left["logprob_sum"] - right["logprob_sum"]) / left["token_count"]).abs().max()


@pytest.fixture
def memory_for(monkeypatch):
    """`memory_for(tokens)`: rows of more tokens end in the error that torch raises."""
    read_row = RowReader.read

    def limit(tokens):
        def read(self, row):
            if len(row) > tokens:
                raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {len(row)} MiB.")
            return read_row(self, row)

        monkeypatch.setattr(RowReader, "read", read)

    return limit


def test_other_errors_of_a_model_are_not_taken_for_a_shortage_of_memory(qwen3, trajectories, negatives, monkeypatch):
    def fail(self, row):
        raise RuntimeError("CUDA error: device-side assert triggered")

    answer_logprobs(trajectories, negatives, qwen3, SCORING)
    monkeypatch.setattr(RowReader, "read", fail)
    with pytest.raises(RuntimeError, match="device-side assert"):
        answer_logprobs(trajectories, negatives, qwen3, SCORING)


def test_out_of_memory_halves_the_rows_and_changes_no_value(qwen3, trajectories, negatives, memory_for):
    model = replace(qwen3)
    plenty = answer_logprobs(trajectories, negatives, model, SCORING)
    memory_for(230)
    advanced = []
    short = answer_logprobs(trajectories, negatives, model, SCORING, progress=advanced.append)
    assert (min(advanced) >= 0, sum(advanced)) == (True, trajectories.height)
    assert row_budget(model) <= 230
    assert largest_difference(short.logprobs, plenty.logprobs) < 1e-5
    assert short.cost.forward_tokens > plenty.cost.forward_tokens


def test_no_memory_at_all_is_an_error_that_says_what_to_do(qwen3, trajectories, negatives, memory_for):
    answer_logprobs(trajectories, negatives, qwen3, SCORING)
    memory_for(100)
    with pytest.raises(ModelError, match=r"too little memory for a row of .* Tried to allocate .* use a smaller dtype"):
        answer_logprobs(trajectories, negatives, qwen3, SCORING)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 0.05), (torch.float16, 0.01)])
def test_half_precision_is_close_whatever_the_packing(qwen3, trajectories, negatives, dtype, tolerance):
    if dtype is torch.bfloat16 and "ATEN_CPU_CAPABILITY" in os.environ:
        pytest.skip("torch 2.13 picks bfloat16 kernels by processor, whatever ATEN_CPU_CAPABILITY says, and fails")
    model = replace(qwen3, model=deepcopy(qwen3.model).to(dtype))
    found = [answer_logprobs(trajectories, negatives, qwen3, SCORING).logprobs]
    for row_tokens in (128, 400, 4096):
        scoring = SCORING.model_copy(update={"row_tokens": row_tokens})
        found.append(answer_logprobs(trajectories, negatives, model, scoring).logprobs)
    for one, other in combinations(found, 2):
        assert ((one["logprob_sum"] - other["logprob_sum"]).abs() / one["token_count"]).max() < tolerance


OVERFLOWING = frame_of([("good", "q", "How many?", ["1 + 1"], "2"), ("big", "Q", "How many %?", ["%", "1"], "2")])
LISTED = negatives_of({"good": ["3"], "big": ["3"]})


def overflowing(qwen3):
    """A float16 model whose last layer writes numbers that float16 cannot hold behind the token `%`."""
    model = replace(qwen3, model=deepcopy(qwen3.model))
    (token,) = model.tokenizer.encode("%", add_special_tokens=False)
    with torch.no_grad():
        model.model.model.embed_tokens.weight[token] = 6e4 * torch.sign(model.model.model.embed_tokens.weight[token])
        model.model.model.layers[0].mlp.down_proj.weight *= 3000
    model.model.to(torch.float16)
    return model


def test_what_half_precision_cannot_hold_is_rejected_by_id_and_the_rest_goes_on(qwen3):
    model = overflowing(qwen3)
    with torch.inference_mode():
        ids = model.tokenizer("How many %?", return_tensors="pt")["input_ids"]
        assert not model.model(ids).logits.isfinite().all()
    result = answer_logprobs(OVERFLOWING, LISTED, model, SCORING)
    assert result.rejected["trajectory_id"].to_list() == ["big"]
    assert "not a finite number; score it in float32" in result.rejected["reason"][0]
    assert set(result.logprobs["trajectory_id"]) == {"good"}


@given(st.lists(st.integers(1, 400), max_size=8), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_windows_hold_whole_questions_and_every_trajectory_once(counts, random):
    rows = [(f"{number}-{index}", f"q{number}") for number, count in enumerate(counts) for index in range(count)]
    random.shuffle(rows)
    frame = pl.DataFrame(rows, schema={"trajectory_id": pl.String, "question": pl.String}, orient="row")
    windows = list(slices(frame))
    assert sorted(name for window in windows for name in window["trajectory_id"]) == sorted(name for name, _ in rows)
    assert all(0 < len(window) <= LARGEST_WINDOW + WINDOW_TRAJECTORIES for window in windows)
    for number, count in enumerate(counts):
        holding = [window for window in windows if f"q{number}" in window["question"]]
        assert len(holding) <= 1 + (count + WINDOW_TRAJECTORIES) // LARGEST_WINDOW


def test_an_item_is_made_while_the_one_before_it_is_used():
    made = [Event() for _ in range(4)]

    def numbers():
        for number, event in enumerate(made):
            event.set()
            yield number

    for number in ahead(numbers()):
        assert number == 3 or made[number + 1].wait(timeout=120)
    assert list(ahead(iter(range(5)))) == [0, 1, 2, 3, 4]
    assert list(ahead(iter(()))) == []


def planned_as(model: LoadedModel, card: str = "laptop-cpu") -> PlannedModel:
    return PlannedModel(model.tokenizer, model.context_length, 0, "float32", known_hardware()[card])


@pytest.mark.parametrize(
    "values",
    [{}, {"row_tokens": 200}, {"reader": "flex"}, {"reader": "masked"}, {"scorer": "reference", "templates": 1}],
)
def test_planned_tokens_are_those_that_a_run_reports(qwen3, trajectories, negatives, values):
    scoring, model = SCORING.model_copy(update=values), replace(qwen3)
    planned, _ = scored_tokens(trajectories, negatives, planned_as(model), scoring)
    assert planned == answer_logprobs(trajectories, negatives, model, scoring).cost.forward_tokens


def test_a_plan_for_a_gpu_counts_the_padding_of_its_rows(qwen3, trajectories, negatives):
    plain, padded = (
        scored_tokens(trajectories, negatives, planned_as(qwen3, card), SCORING)[0]
        for card in ("laptop-cpu", "l4-24gb")
    )
    flex = SCORING.model_copy(update={"reader": "flex", "row_tokens": 16_384})
    assert plain < padded == answer_logprobs(trajectories, negatives, qwen3, flex).cost.forward_tokens


def test_trajectories_beyond_a_window_are_rejected_by_id_where_others_fit(build_model, monkeypatch):
    model = build_model("mistral", sliding_window=150)
    frame = frame_of([("t1", "q", "How many?", ["1"], "2"), ("t2", "Z", "How many now?", ["1 + 1 = 2; " * 30], "2")])
    monkeypatch.setattr("cpmi_dagster.scoring.answer_trees.WINDOW_TRAJECTORIES", 1)
    listed = negatives_of({"t1": ["3"], "t2": ["3"]})
    result = answer_logprobs(frame, listed, model, Scoring(templates=1))
    assert result.rejected["trajectory_id"].to_list() == ["t2"]
    assert refusals(frame, listed, model, Scoring(templates=1)).equals(result.rejected)
    assert refusals(frame[:1], listed, model, Scoring(templates=1), of_steps=True).is_empty()
    assert "more than the 150 that a layer of the model sees" in result.rejected["reason"][0]
    assert set(result.logprobs["trajectory_id"]) == {"t1"}


class Card:
    """A CUDA device of a model that is elsewhere."""

    type = "cuda"


@pytest.mark.parametrize(
    ("free_bytes", "tokens"), [(2**40, 16_384), (2 * 3712 * 5000, 4096), (2 * 3712 * 4096, 4096), (1000, 128)]
)
def test_on_a_gpu_rows_follow_free_memory(qwen3, monkeypatch, free_bytes, tokens):
    assert bytes_per_token(qwen3.model) == 3712
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda device: (free_bytes, 2**40))
    monkeypatch.setattr("torch.cuda.memory_reserved", lambda device: 0)
    monkeypatch.setattr("torch.cuda.memory_allocated", lambda device: 0)
    there = SimpleNamespace(config=qwen3.model.config, dtype=torch.float32, device=Card())
    assert row_budget(SimpleNamespace(model=there, identity="there", remembered={})) == tokens


def test_the_budget_is_that_of_the_device(qwen3):
    assert row_budget(replace(qwen3)) == LONGEST_ROW["cpu"]


def test_bytes_of_a_token_by_hand(qwen3):
    # float32, 64 wide, 96 inside
    assert bytes_per_token(qwen3.model) == 4 * (10 * 64 + 3 * 96)
