"""One bad trajectory never stops the others, and neither does a shortage of memory."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from scoring_examples import (
    ALL_CONDITIONINGS,
    NEGATIVES,
    TRAJECTORIES,
    assert_same_values,
    frame_of,
    negatives_of,
    random_model,
    scored,
)

from cpmi_dagster.contracts.tables import RejectedTrajectories
from cpmi_dagster.errors import ModelError
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.scoring.logprobs import answer_logprobs
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.trajectories.templates import render_question
from cpmi_dagster.tree_forward.row_readers import RowReader
from cpmi_dagster.tree_forward.tree_reader import row_budget

GOOD = ("good", "q", "How many?", ["1 + 1 = 2"], "2")
LISTED = negatives_of({"good": ["3", "4"], "bad": ["3", "4"]})


@pytest.fixture
def model() -> LoadedModel:
    """A random Qwen3 that nothing is remembered of."""
    loaded = random_model("qwen3")
    return replace(loaded, model=deepcopy(loaded.model))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (("bad", "q", "How many?", ["a"], None), "has no gold answer"),
        (("lonely", "q", "How many?", ["a"], "2"), "no hard negatives"),
        (("bad", "q", "many? " * 1500, ["a"], "2"), "more than the 2048 the model reads"),
    ],
)
def test_a_bad_trajectory_is_rejected_with_its_reason_and_the_others_are_scored(model, row, reason):
    result = scored(model, frame_of([GOOD, row]), LISTED)
    assert RejectedTrajectories.is_valid(result.rejected)
    assert result.rejected.select("trajectory_id", "stage").rows() == [(row[0], "answer_logprobs")]
    assert reason in result.rejected["reason"][0] and f"`{row[0]}`" in result.rejected["reason"][0]
    assert set(result.logprobs["trajectory_id"]) == {"good"}


@pytest.mark.parametrize("scorer", ["tree", "reference"])
def test_a_value_that_is_not_finite_rejects_its_trajectory_alone(model, scorer):
    (token,) = model.tokenizer.encode("%", add_special_tokens=False)
    with torch.no_grad():
        model.model.get_input_embeddings().weight[token] = float("nan")
    frame = frame_of([GOOD, ("bad", "q", "How many?", ["%"], "2")])
    result = scored(model, frame, LISTED, scorer=scorer)
    assert result.rejected["trajectory_id"].to_list() == ["bad"]
    assert "an answer is nan, not a finite number; score it in float32" in result.rejected["reason"][0]
    assert_same_values(result.logprobs, scored(model, frame[:1], LISTED, scorer=scorer).logprobs)


def test_forward_tokens_are_the_nodes_of_the_trees():
    model = random_model("qwen3")
    encode = model.tokenizer.encode
    prompt, step = len(encode(render_question("How many?"))), len(encode("1 + 1 = 2\n"))
    shared = len(encode("The answer is: 2")) - 1
    assert encode("The answer is: 2")[:-1] == encode("The answer is: 3")[:-1]
    result = scored(model, frame_of([GOOD]), negatives_of({"good": ["3"]}), conditionings=("marginal",))
    assert (result.cost.forward_tokens, result.cost.generated_tokens) == (prompt + step + 2 * shared, 0)


@pytest.fixture
def fail_beyond(monkeypatch):
    """`fail_beyond(tokens)`: there is too little memory to read a longer row."""
    read_row = RowReader.read

    def install(tokens: int):
        def read(self, row):
            if len(row) > tokens:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")
            return read_row(self, row)

        monkeypatch.setattr(RowReader, "read", read)

    return install


def test_out_of_memory_halves_the_rows_and_changes_no_value_and_at_last_says_what_to_do(model, fail_beyond):
    plenty, counts = scored(model), []
    fail_beyond(256)
    short = answer_logprobs(
        TRAJECTORIES, NEGATIVES, model, Scoring(templates=1, conditionings=ALL_CONDITIONINGS), counts.append
    )
    assert (min(counts) >= 0, sum(counts)) == (True, TRAJECTORIES.height)
    assert row_budget(model) <= 256
    assert_same_values(short.logprobs, plenty.logprobs)
    assert short.cost.forward_tokens > plenty.cost.forward_tokens
    fail_beyond(16)
    with pytest.raises(ModelError, match=r"too little memory for a row of .* Tried to allocate 2 GiB.* use a smaller"):
        scored(model)
