"""What each example of `docs/extending.md` must do, run in a process that imports the method with its code inserted.

python extended_method.py reward_type profile.yaml
"""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.profiles.settings import Settings, load_settings

MEAN, ONWARD = "cpmi_mean", "cpmi_onward"
DRAWS = 20


def reward_type(settings: Settings) -> None:
    """`cpmi_mean` is the mean of two CPMI, and everything knows what to do with it."""
    from cpmi_dagster.reports.reward_rows import main_rows
    from cpmi_dagster.rewards.reward_type import Evidence
    from cpmi_dagster.rewards.step_rewards import step_rewards

    gold = {("question", -1): (-2, -2), ("step", 0): (-1.8, -1.6), ("step", 1): (-2.6, -2.2),
            ("prefix", 0): (-1.5, -1.7), ("prefix", 1): (-1.4, -1.4)}  # fmt: skip
    logprobs = _logprobs({place: [(mean, -2) for mean in means] for place, means in gold.items()})
    evidence = Evidence(pl.DataFrame({"trajectory_id": ["t"], "steps": [["a", "b"]]}), logprobs)
    computed = step_rewards(evidence, [MEAN])
    assert computed["reward_type"].to_list() == [MEAN, MEAN]
    _check_close(computed["reward"].to_list(), [(0.3 + 0.4) / 2, (-0.4 + 0.2) / 2])
    assert MEAN in settings.rewards.methods
    assert main_rows(settings.recipes)[-1].row == "CPMI (mean)"
    assert settings.demand.conditionings == ("marginal", "incremental")
    _check_cost_and_labels(MEAN, "CPMI (mean)", share=1.0)


def question_set(settings: Settings) -> None:
    """SVAMP's rows are read, graded, and have their columns in the report."""
    from cpmi_dagster.answers.verdicts import equivalent
    from cpmi_dagster.benchmarks.registry import read_benchmark
    from cpmi_dagster.prm.settings import Recipe
    from cpmi_dagster.reports.inputs import ReportInputs
    from cpmi_dagster.resources.sources.data_sources import DataSources

    rows = DataSources(settings).rows(settings.sources.benchmarks["svamp"])
    problems = read_benchmark("svamp", rows)
    assert problems.select("benchmark", "problem_id", "question", "answer").rows() == [
        ("svamp", "a-1", "Ann has 7 pens. She buys 5 more. How many pens has Ann?", "12.0"),
        ("svamp", "a-2", "Bob had 9 eggs. He ate 2. How many eggs are left?", "7.0"),
    ]
    assert equivalent(problems["answer"].to_list(), ["12", "7"]) == [True, True]
    assert settings.benchmarks.best_of_n == ("math500", "svamp")
    choices = pl.DataFrame([
        {"recipe": "cpmi_bce", "benchmark": benchmark, "problem_id": str(number), "n": n, "aggregation": "mean",
         "candidate": 0, "correct": float(number < n), "tied": False}
        for benchmark in ("math500", "svamp") for number in range(4) for n in (1, 2)
    ])  # fmt: skip
    recipes = (Recipe(name="cpmi_bce", reward_type="cpmi"),)
    inputs = ReportInputs({"benchmarks/best_of_n_choices": choices}, recipes, bootstrap_samples=DRAWS)
    shown = _shown("best_of_n", inputs)
    assert (shown["CPMI", "SVAMP N=1"], shown["CPMI", "SVAMP N=2"]) == ("25.0", "50.0")
    assert shown["CPMI", "MATH500 N=2"] == "50.0"


def conditioning(settings: Settings) -> None:
    """`onward` is the sum of what each step from i on adds, and a reward type by itself."""
    from cpmi_dagster.reports.html import render_report
    from cpmi_dagster.rewards.reward_type import Evidence
    from cpmi_dagster.rewards.step_rewards import step_rewards
    from cpmi_dagster.scoring.conditionings import template_scores

    means = {("question", -1): (-4.0, -2.0), ("prefix", 0): (-3.0, -2.5), ("prefix", 1): (-1.0, -4.0)}
    logprobs = _logprobs({place: [answers] for place, answers in means.items()})
    scores = template_scores(logprobs, ["onward", "incremental"])
    onward = scores.filter(pl.col("conditioning") == "onward").sort("step_index")
    _check_close(onward["gold_shift"].to_list(), [-1 - -4, -1 - -3])
    _check_close(onward["negative_shift"].to_list(), [-4 - -2, -4 - -2.5])
    evidence = Evidence(pl.DataFrame({"trajectory_id": ["t"], "steps": [["a", "b"]]}), logprobs)
    rewards = step_rewards(evidence, [ONWARD])
    _check_close(rewards["reward"].to_list(), [3 - -2, 2 - -1.5])
    assert "onward" in settings.demand.conditionings and ONWARD in settings.rewards.types
    assert "onward" not in load_settings("miniature").demand.conditionings
    _check_cost_and_labels(ONWARD, "CPMI (onward)", share=3 / 5)
    assert "onward: all steps against steps 1 to i − 1;" in render_report("p", "2026-01-31", {})


def step_benchmark(settings: Settings) -> None:
    """PRM800K has its columns beside the paper's four sets, whose average stays."""
    from cpmi_dagster.benchmarks.registry import AVERAGED_BENCHMARKS, read_benchmark
    from cpmi_dagster.prm.settings import Recipe
    from cpmi_dagster.reports.inputs import ReportInputs, figure_frame
    from cpmi_dagster.reports.process_level import PROTOCOLS, measure_processbench
    from cpmi_dagster.resources.sources.data_sources import DataSources

    rows = DataSources(settings).rows(settings.sources.benchmarks["prm800k"])
    read = read_benchmark("prm800k", rows)
    assert read.select("problem_id", "first_error", pl.col("steps").list.len()).rows() == [("0", -1, 2), ("1", 1, 3)]
    # one error found, one missed at any threshold, and a solution without an error that is passed
    judged = [(1, [0.9, 0.2, 0.2]), (1, [0.9, 0.9, 0.2]), (-1, [0.9, 0.9, 0.9])]
    names = [*AVERAGED_BENCHMARKS, "prm800k"]
    problems = pl.DataFrame([
        {"benchmark": name, "problem_id": str(number), "question": f"q{number}", "steps": ["s"] * 3,
         "first_error": label}
        for name in names for number, (label, _) in enumerate(judged)
    ])  # fmt: skip
    said = pl.DataFrame([
        {"recipe": "cpmi_bce", "benchmark": name, "problem_id": str(number), "step_index": step, "probability": value}
        for place, name in enumerate(names) for number, (_, values) in enumerate(judged)
        for step, value in enumerate(values[::-1] if place == 1 else values)
    ])  # fmt: skip
    recipes = (Recipe(name="cpmi_bce", reward_type="cpmi"),)
    frames = {"sources/benchmark_problems": problems, "benchmarks/processbench_predictions": said}
    with_it = ReportInputs(frames, recipes, bootstrap_samples=DRAWS)
    four = {key: frame.filter(pl.col("benchmark") != "prm800k") for key, frame in frames.items()}
    without = ReportInputs(four, recipes, bootstrap_samples=DRAWS)
    for detailed in (False, True):
        measured = figure_frame(measure_processbench(with_it, detailed=detailed))
        of_it = pl.col("column").str.starts_with("PRM800K")
        assert measured.filter(~of_it).equals(figure_frame(measure_processbench(without, detailed=detailed)))
        assert measured.filter(of_it)["row"].unique(maintain_order=True).to_list() == [
            row + suffix for suffix in PROTOCOLS.values() for row in ("CPMI", "Chance")
        ]
    shown = _shown("processbench_detailed", with_it)
    assert [shown["CPMI", f"PRM800K {figure}"] for figure in ("Err", "Corr", "F1")] == ["50.0", "100.0", "66.7"]
    assert _shown("processbench", with_it)["CPMI", "PRM800K"] == "66.7"
    _check_judge_of("prm800k", read)


def _check_judge_of(benchmark: str, problems: pl.DataFrame) -> None:
    from cpmi_dagster.benchmarks.judges import read_judged_lines
    from cpmi_dagster.reports.process_level import evaluate, readable

    said = [{"id": "0", "probabilities": [0.9, 0.9]}, {"id": "1", "probabilities": [0.9, 0.1, 0.9]}]
    file = Path("judged.jsonl")
    file.write_text("\n".join(map(json.dumps, said)), encoding="utf-8")
    figures = readable(evaluate("mine", read_judged_lines(file, benchmark), problems, DRAWS, 0))
    name, value = figures.select("figure", "value").rows()[-1]
    assert (name, value.startswith("100.0 too few (")) == ("PRM800K F1", True), (name, value)


def _logprobs(means: dict[tuple[str, int], list[tuple[float, ...]]]) -> pl.DataFrame:
    """Rows of `labels.answer_logprobs` from mean log-probabilities of the answers, by context and template."""
    from cpmi_dagster.contracts.tables import AnswerLogprobs

    rows = [
        ("t", template, *place, rank, 2 * mean, 2)
        for place, by_template in means.items()
        for template, answers in enumerate(by_template)
        for rank, mean in enumerate(answers)
    ]
    return AnswerLogprobs.cast(pl.DataFrame(rows, AnswerLogprobs.column_names(), orient="row"))


def _check_cost_and_labels(name: str, label: str, share: float) -> None:
    """It pays for its share of the scores, is normalised by Eq. 7, and has a row by its label."""
    from cpmi_dagster.reports.inputs import ReportInputs, figure_frame
    from cpmi_dagster.reports.labels import measure_label_quality
    from cpmi_dagster.rewards import costs, soft_labels
    from cpmi_dagster.rewards.settings import Rewards, SoftLabels

    spent = {"hard_negatives": Cost(2.0, 900, 60), "answer_logprobs": Cost(6.0, 8100, 0)}
    scored = [("question", -1), ("step", 0), ("step", 1), ("prefix", 0), ("prefix", 1)]
    targets = pl.DataFrame([("t", *one, 1, 2) for one in scored], schema=costs.TARGET_TOKENS, orient="row")
    measured, chosen = costs.Measured(spent, {}, targets), Rewards(types=(name,))
    cost = costs.labeling_costs("000", 1, measured, chosen, 4, {"labeler": "big"})
    assert cost.select("wall_seconds", "generated_tokens").rows() == [(2.0 + 6.0 * share, 60)]
    rewards = pl.DataFrame(
        {"trajectory_id": ["t", "t", "u"], "step_index": [0, 1, 0], "reward_type": name, "reward": [2.0, 3.0, 5.0]}
    )
    soft = soft_labels.soft_labels(rewards, SoftLabels())["soft_label"].to_list()
    _check_close(soft, [1 / (1 + math.exp(-z)) for z in (-1, 0, 2)])
    correct = [[False, True], [True]]
    trajectories = pl.DataFrame(
        {
            "trajectory_id": ["t", "u"],
            "question_id": ["p", "q"],
            "row_number": [0, 1],
            "steps": [["a", "b"], ["c"]],
            "shepherd_labels": correct,
        }
    )
    truth = pl.DataFrame({"row_number": [0, 1], "correct": correct})
    frames = {"labels/step_rewards": rewards, "alignment/trajectories": trajectories, "sources/step_truth": truth}
    quality = figure_frame(measure_label_quality(ReportInputs(frames, bootstrap_samples=DRAWS)))
    assert (label, "Label AUC", 1.0) in quality.select("row", "column", "measured").rows()


def _shown(artifact: str, inputs: object) -> dict[tuple[str, str], str]:
    """The figures of ours as the report prints them, by row and column."""
    from cpmi_dagster.reports.artifacts import ARTIFACTS, build_artifact
    from cpmi_dagster.reports.html import comparison_table

    comparison = build_artifact(ARTIFACTS[artifact], inputs, "p")
    ours = comparison.filter(pl.col("measured").is_not_null())
    table = comparison_table(ARTIFACTS[artifact].paper, ours)
    cells = {
        (label, column): cell.ours for label, row in table.rows for column, cell in zip(table.columns, row, strict=True)
    }
    turned = {(column, label): text for (label, column), text in cells.items()}
    return {key: text for key, text in {**cells, **turned}.items() if text}


def _check_close(found: list[float], expected: list[float]) -> None:
    assert len(found) == len(expected), (found, expected)
    assert all(math.isclose(one, other, abs_tol=1e-6) for one, other in zip(found, expected, strict=True)), found


CHECKS: dict[str, Callable[[Settings], None]] = {
    check.__name__: check for check in (reward_type, question_set, conditioning, step_benchmark)
}

if __name__ == "__main__":
    CHECKS[sys.argv[1]](load_settings(sys.argv[2]))
