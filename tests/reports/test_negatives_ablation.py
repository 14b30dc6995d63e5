"""How often a wrong final answer is among its own hard negatives, by plain fractions."""

import polars as pl

from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.quality import own_answers_share


def test_wrong_final_answers_among_the_hard_negatives_are_counted_by_value():
    """t0 and t1 are wrong and in both cases among them (20.0 and 3/4), t2 states no answer, t3 is right, t4 is not."""
    names = [f"t{number}" for number in range(5)]
    answers = {"gold_answer": ["18", "1/2", "7", "3", "5"], "final_answer": ["20", "0.75", None, "3.0", "6"]}
    trajectories = pl.DataFrame({"trajectory_id": names, "question_id": names, **answers})
    wrong = [["17", "20.0"], ["1/4", "3/4"], ["6"], ["4"], ["7"]]
    negatives = pl.DataFrame({"trajectory_id": names, "answer": wrong}).explode("answer")
    frames = {"alignment/trajectories": trajectories, "labels/hard_negatives": negatives}
    share = own_answers_share(ReportInputs(frames, bootstrap_samples=20))
    assert share is not None and (share.value, share.n) == (2 / 3, 3)
