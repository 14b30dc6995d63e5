"""However solutions are read, as trees, side by side or one by one, each has the scores that it has alone."""

import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_models import random_decoder, random_reward_model, toy_examples

from cpmi_dagster.errors import ScoringError
from cpmi_dagster.prm import step_reader
from cpmi_dagster.prm.inputs import EncodedSolution, encode_solutions
from cpmi_dagster.prm.model import LoadedRewardModel
from cpmi_dagster.prm.scoring import probabilities, score_steps
from cpmi_dagster.prm.step_reader import StepReader, step_values
from cpmi_dagster.trajectories.templates import render_question, render_step

pytestmark = pytest.mark.slow

QUESTION, STEPS = "How many two ?", ["we add two", " hence five ", "so"]
token_lists = st.lists(st.integers(2, 6), min_size=1, max_size=30)


@st.composite
def solutions(draw: st.DrawFn) -> list[EncodedSolution]:
    """Solutions that begin alike in several ways; some occur twice."""
    beginnings = draw(st.lists(token_lists, min_size=1, max_size=3))
    encoded = []
    for rest in draw(st.lists(token_lists, min_size=1, max_size=8)):
        tokens = draw(st.sampled_from(beginnings)) + rest
        ends = draw(st.sets(st.integers(0, len(tokens) - 1), min_size=1, max_size=4))
        encoded.append(EncodedSolution(tokens, sorted(ends)))
    return encoded


def values_of(loaded: LoadedRewardModel, encoded: list[EncodedSolution], batch_tokens: int, read=None):
    reader = StepReader(loaded.model.backbone, loaded.encode, loaded.identity, 2048, cache=loaded.cache)
    return step_values(encoded, reader, read or (lambda ends: probabilities(loaded.model.head(ends))), batch_tokens)


@given(solutions(), st.integers(1, 300))
@settings(deadline=None, max_examples=20)
def test_solutions_read_together_score_as_each_alone_in_the_model_itself(encoded, batch_tokens):
    loaded = random_reward_model()
    for solution, found in zip(encoded, values_of(loaded, encoded, batch_tokens), strict=True):
        tokens, ends = torch.tensor([solution.token_ids]), torch.tensor([solution.step_positions])
        with torch.inference_mode():
            alone = loaded.model(tokens, torch.ones_like(tokens), ends).logits[0].double().sigmoid()
        torch.testing.assert_close(torch.tensor(found), alone, atol=1e-5, rtol=0)


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "gpt_neox", "bloom", "gemma2", "mistral"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_model_reads_solutions_as_it_reads_text_as_trees_or_one_by_one(architecture, dtype, caplog):
    loaded = random_reward_model(architecture)
    loaded.model.to(dtype)
    encoded = [EncodedSolution([2, 3, 4, *rest], [1, 2 + len(rest)]) for rest in ([5, 6], [7], [5, 8, 9])]
    states, _ = (values_of(loaded, encoded, 1000, torch.Tensor.float) for _ in range(2))
    warnings = [each.getMessage() for each in caplog.records if "one by one" in each.getMessage()]
    assert len(warnings) == (architecture == "bloom")
    # 15 tokens, of which their tree has 8
    assert all("of 3 solutions, and 1.9 times the tokens" in each and "(BloomModel does" in each for each in warnings)
    for solution, found in zip(encoded, states, strict=True):
        with torch.inference_mode():
            text = loaded.model.backbone(input_ids=torch.tensor([solution.token_ids])).last_hidden_state[0].float()
        difference = (torch.tensor(found) - text[solution.step_positions]).abs().max()
        assert difference <= step_reader.TOLERANCE[str(dtype).removeprefix("torch.")] * text.abs().max()


def test_token_ids_are_those_of_the_pieces_and_steps_past_the_limit_are_dropped_whole():
    for bos in (True, False):
        tokenizer = random_decoder("llama", bos).tokenizer
        pieces = [render_question(QUESTION), *map(render_step, STEPS)]
        ids = [tokenizer.encode(piece, add_special_tokens=False) for piece in pieces]
        start = [tokenizer.bos_token_id] if bos else []
        ends = [len(start) + sum(map(len, ids[: count + 2])) - 1 for count in range(3)]
        [whole] = encode_solutions(tokenizer, [QUESTION], [STEPS])
        assert (whole.token_ids, whole.step_positions) == ([*start, *(token for piece in ids for token in piece)], ends)
        for limit, kept in ((ends[1] + 1, 2), (ends[1], 1)):
            [cut] = encode_solutions(tokenizer, [QUESTION], [STEPS], max_tokens=limit)
            assert (cut.step_positions, cut.dropped_steps) == (ends[:kept], 3 - kept)
            assert cut.token_ids == whole.token_ids[: ends[kept - 1] + 1]


def test_there_is_a_row_per_step_in_the_order_given_and_what_cannot_be_scored_is_named():
    rows = toy_examples(10, seed=2).select(pl.lit("toy").alias("benchmark"), "trajectory_id", "question", "steps")
    empty = rows.head(1).with_columns(trajectory_id=pl.lit("empty"), steps=pl.lit([], dtype=pl.List(pl.String)))
    frame, counts, model = pl.concat([rows.head(4), empty, rows.slice(4)]), [], random_reward_model()
    found = score_steps(model, frame, 512, counts.append)
    numbers = (
        frame.with_columns(step_index=pl.int_ranges(pl.col("steps").list.len())).explode("step_index").drop_nulls()
    )
    assert found.columns == ["benchmark", "trajectory_id", "step_index", "probability"]
    assert found["trajectory_id", "step_index"].equals(numbers["trajectory_id", "step_index"])
    assert found["probability"].is_between(0, 1).all() and sum(counts) == frame.height
    assert score_steps(model, frame.clear(), 512).schema == found.schema
    endless = rows[:1].with_columns(trajectory_id=pl.lit("endless"), steps=pl.lit(["so " * 200]))
    with pytest.raises(ScoringError, match=r"benchmark toy, trajectory_id endless has \d+ tokens, but random:qwen3@0"):
        score_steps(model, pl.concat([rows, endless]), 256)
