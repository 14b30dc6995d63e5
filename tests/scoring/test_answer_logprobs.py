"""One bad trajectory never stops the others, and every row is finite, sorted and of the table's contract."""

import time
from copy import deepcopy
from dataclasses import replace

import polars as pl
import pytest
import torch
from scoring_examples import frame_of, negatives_of
from tokenizers import normalizers

from cpmi_dagster.contracts.contexts import Context
from cpmi_dagster.contracts.tables import AnswerLogprobs, RejectedTrajectories
from cpmi_dagster.reading import tree_reader
from cpmi_dagster.scoring.logprobs import answer_logprobs, refusals
from cpmi_dagster.scoring.questions import answer_questions, read_wanted
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.trajectories.templates import render_question

GOOD = ("good", "q", "How many?", ["1 + 1 = 2"], "2")


def score_with(model, *rows, answers=("3", "4"), **values):
    """The result for `GOOD` and some more rows; a row's id beginning with `lonely` gets no negatives."""
    frame = frame_of([GOOD, *rows])
    listed = {name: list(answers) for name in frame["trajectory_id"] if not name.startswith("lonely")}
    return answer_logprobs(frame, negatives_of(listed), model, Scoring(**{"templates": 1, **values}))


@pytest.mark.parametrize("scorer", ["tree", "reference"])
def test_rows_meet_the_contract_and_stand_in_order(qwen3, trajectories, negatives, scorer):
    result = answer_logprobs(trajectories, negatives, qwen3, Scoring(scorer=scorer, templates=2))
    assert AnswerLogprobs.is_valid(result.logprobs)
    assert RejectedTrajectories.is_valid(result.rejected)
    assert result.logprobs.equals(result.logprobs.sort(AnswerLogprobs.primary_key()))
    # contexts (question, prefixes, steps) x templates x answers, trajectory by trajectory
    assert result.logprobs.height == 2 * (7 * 4 + 5 * 4 + 3 * 2 + 7 * 5)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (("bad", "q", "How many?", [], "2"), "has no steps"),
        (("bad", "q", "How many?", ["a", None], "2"), "step 1 (from 0) is null"),
        (("bad", "q", "  ", ["a"], "2"), "has no question"),
        (("bad", "q", "How many?", ["a"], ""), "the gold answer is empty"),
        (("lonely", "q", "How many?", ["a"], "2"), "no hard negatives"),
        (("bad", "q", "many? " * 1500, ["a"], "2"), "more than the 2048 the model reads"),
        (("bad", "q", "How many?", ["many? " * 1500], "2"), "more than the 2048 the model reads"),
    ],
)
def test_a_bad_trajectory_is_rejected_with_its_reason_and_the_others_are_scored(qwen3, row, reason):
    result = score_with(qwen3, row)
    assert result.rejected.select("trajectory_id", "stage").rows() == [(row[0], "answer_logprobs")]
    assert reason in result.rejected["reason"][0]
    assert f"`{row[0]}`" in result.rejected["reason"][0]
    assert set(result.logprobs["trajectory_id"]) == {"good"}
    frame, listed = frame_of([GOOD, row]), negatives_of({"good": ["3", "4"], "bad": ["3", "4"]})
    assert refusals(frame, listed, qwen3, Scoring(templates=1)).equals(result.rejected)


def test_an_answer_that_tokenises_to_nothing_is_rejected(qwen3):
    tokenizer = deepcopy(qwen3.tokenizer)
    tokenizer.backend_tokenizer.normalizer = normalizers.Replace("\u200b", "")
    result = score_with(replace(qwen3, tokenizer=tokenizer), ("bad", "q", "How many?", ["a"], "\u200b"))
    assert "the gold answer '\\u200b' tokenises to nothing" in result.rejected["reason"][0]
    assert set(result.logprobs["trajectory_id"]) == {"good"}


@pytest.mark.parametrize("scorer", ["tree", "reference"])
def test_a_value_that_is_not_finite_rejects_its_trajectory_alone(qwen3, scorer):
    model = replace(qwen3, model=deepcopy(qwen3.model))
    (token,) = model.tokenizer.encode("%", add_special_tokens=False)
    with torch.no_grad():
        model.model.get_input_embeddings().weight[token] = float("nan")
    result = score_with(model, ("bad", "q", "How many?", ["%"], "2"), scorer=scorer)
    assert result.rejected["trajectory_id"].to_list() == ["bad"]
    assert "an answer is nan, not a finite number" in result.rejected["reason"][0]
    clean = score_with(model, scorer=scorer)
    assert (result.logprobs["logprob_sum"] - clean.logprobs["logprob_sum"]).abs().max() < 1e-5


EVERYTHING = {"templates": 2, "conditionings": ("marginal", "incremental", "leave_one_out"), "negatives": 2}


@pytest.mark.parametrize("scorer", ["tree", "reference"])
@pytest.mark.parametrize(
    "known",
    [
        {"conditionings": ("marginal",)},
        {"templates": 1},
        {"negatives": 1},
        {"negatives": 0},
        {"conditionings": ("marginal",), "templates": 1, "negatives": 1},
        {},
    ],
)
def test_what_is_asked_for_later_is_added_and_nothing_else_is_scored(qwen3, trajectories, negatives, known, scorer):
    has, negatives = EVERYTHING | known, negatives.filter(pl.col("rank") <= EVERYTHING["negatives"])
    few = negatives.filter(pl.col("rank") <= has["negatives"])
    first, all_of_it = (
        Scoring(templates=one["templates"], conditionings=one["conditionings"], scorer=scorer)
        for one in (has, EVERYTHING)
    )
    before = answer_logprobs(trajectories, few, qwen3, first, contrasted=has["negatives"] != 0)
    keys = AnswerLogprobs.primary_key()
    asked = answer_questions(trajectories, negatives, all_of_it)
    missing = read_wanted(asked.join(before.logprobs, on=keys, how="anti"))
    added = answer_logprobs(trajectories, negatives, qwen3, all_of_it, wanted=missing)
    at_once = answer_logprobs(trajectories, negatives, qwen3, all_of_it)
    found = pl.concat([before.logprobs, added.logprobs]).join(at_once.logprobs, on=keys, suffix="_at_once")
    assert found.height == at_once.logprobs.height
    assert (found["logprob_sum"] - found["logprob_sum_at_once"]).abs().max() < 1e-4
    assert added.logprobs.join(before.logprobs, on=keys).is_empty()
    assert (added.cost.forward_tokens == 0) == (known == {})


def test_a_trajectory_of_which_nothing_is_wanted_is_neither_scored_nor_rejected(qwen3):
    frame = frame_of([GOOD, ("bad", "q", "How many?", [], "2"), ("other", "q", "How many?", ["a"], "2")])
    wanted = {"good": frozenset({(0, Context("step", 0), 1)}), "bad": frozenset()}
    listed = negatives_of({"good": ["3"], "other": ["3"]})
    result = answer_logprobs(frame, listed, qwen3, Scoring(templates=1), wanted=wanted)
    assert result.logprobs.select(AnswerLogprobs.primary_key()).rows() == [("good", 0, "step", 0, 1)]
    assert result.rejected.is_empty()


def test_without_hard_negatives_gold_answers_are_scored_where_nothing_is_contrasted(qwen3, trajectories, negatives):
    result = answer_logprobs(trajectories, negatives.clear(), qwen3, Scoring(templates=1), contrasted=False)
    assert result.logprobs["answer_rank"].unique().to_list() == [0]
    assert result.rejected.is_empty()


def test_no_trajectories_give_empty_tables(qwen3):
    result = answer_logprobs(frame_of([GOOD]).clear(), negatives_of({}), qwen3, Scoring())
    assert result.logprobs.schema == AnswerLogprobs.create_empty().schema
    assert result.rejected.schema == RejectedTrajectories.create_empty().schema
    assert result.cost.forward_tokens == 0


def test_progress_counts_every_trajectory_once(qwen3):
    seen: list[int] = []
    rows = [(f"t{number}", "q", f"How many {number % 2}?", ["1"] if number % 3 else [], "2") for number in range(70)]
    listed = negatives_of({row[0]: ["3"] for row in rows})
    scoring = Scoring(templates=1, conditionings=("marginal",))
    result = answer_logprobs(frame_of(rows), listed, qwen3, scoring, progress=seen.append)
    assert sum(seen) == 70
    assert len(seen) > 1
    assert result.rejected.height == 24


def test_forward_tokens_are_the_nodes_of_the_trees(qwen3):
    encode = qwen3.tokenizer.encode
    result = score_with(qwen3, conditionings=("marginal",), answers=("3",))
    prompt, step = len(encode(render_question("How many?"))), len(encode("1 + 1 = 2\n"))
    shared = len(encode("The answer is: 2")) - 1
    assert encode("The answer is: 2")[:-1] == encode("The answer is: 3")[:-1]
    assert result.cost.forward_tokens == prompt + step + 2 * shared
    assert result.cost.generated_tokens == 0
    assert result.cost.wall_seconds > 0


def test_the_released_layout_scores_the_bare_answer_after_numbered_steps(qwen3):
    """As one string: the question, a blank line, `Step 1: `, a blank line, and the answer alone as target."""
    question, step, gold = "Ana has 48 shells.", "48 / 2 = 24", "72"
    frame = frame_of([("t", "q", question, [step], gold)])
    scoring = Scoring(templates=1, conditionings=("prefix",), layout="released")
    rows = answer_logprobs(frame, negatives_of({"t": ["24"]}), qwen3, scoring).logprobs
    row = rows.row(by_predicate=(pl.col("context") == "prefix") & (pl.col("answer_rank") == 0), named=True)
    before = render_question(question).rstrip("\n") + f"\n\nStep 1: {step}\n\n"
    ids, answer = (qwen3.tokenizer(text, add_special_tokens=False)["input_ids"] for text in (before, gold))
    with torch.inference_mode():
        logits = qwen3.model(input_ids=torch.tensor([ids + answer])).logits[0].log_softmax(-1)
    expected = sum(float(logits[len(ids) + place - 1, token]) for place, token in enumerate(answer))
    assert (row["logprob_sum"], row["token_count"]) == (pytest.approx(expected, abs=1e-4), len(answer))


def test_trying_out_how_a_model_reads_trees_is_not_part_of_the_cost(qwen3, monkeypatch):
    seconds = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: seconds)
    tried = tree_reader.choose_reader

    def slow(*arguments):
        nonlocal seconds
        seconds += 100
        return tried(*arguments)

    monkeypatch.setattr(tree_reader, "choose_reader", slow)
    result = score_with(replace(qwen3))
    assert result.logprobs.height
    assert (seconds, result.cost.wall_seconds) == (100, 0)
