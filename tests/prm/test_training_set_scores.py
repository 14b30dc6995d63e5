"""Scores of a model for its own training set: which questions are held out, and which solutions are drawn."""

from toy_models import TRAINING, toy_examples

from cpmi_dagster.prm import scoring
from cpmi_dagster.prm.inputs import validation_questions
from cpmi_dagster.prm.scoring import training_set_scores

EXAMPLES = toy_examples(96)
HELD_OUT = validation_questions(EXAMPLES["question_id"], TRAINING.validation_share, 0)


def scored(trained, seed: int = 0, **options):
    training = TRAINING.model_copy(update=options)
    scores = training_set_scores(trained.path, EXAMPLES, training, seed, None, 512, "cpu")
    return scores.join(EXAMPLES.select("trajectory_id", "question_id"), on="trajectory_id")


def test_the_questions_of_the_validation_are_held_out(trained):
    assert set(scored(trained).filter("held_out")["question_id"]) == HELD_OUT


def test_a_large_set_is_scored_in_part_those_held_out_and_a_random_draw_of_the_others(trained, monkeypatch):
    monkeypatch.setattr(scoring, "MOST_SCORED", 40)
    scores = scored(trained)
    assert scores["trajectory_id"].n_unique() == 40
    assert set(scores.filter("held_out")["question_id"]) == HELD_OUT
    others = sorted(set(scores.filter(~scores["held_out"])["trajectory_id"]))
    assert others[-1] > EXAMPLES["trajectory_id"][60], "not the first by id"
    assert scored(trained).equals(scores)
