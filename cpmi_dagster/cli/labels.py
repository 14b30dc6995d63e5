"""Commands on files: `cpmi label`, `score`, `judge`, `evaluate`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from cpmi_dagster.cli import views
from cpmi_dagster.cli.options import (
    ERR,
    OUT,
    DeviceOption,
    DtypeOption,
    FormatOption,
    MapOption,
    ProfileOption,
    QuietOption,
    SplitOption,
    app,
    load_profile,
    parse_conditionings,
    parse_fields,
)
from cpmi_dagster.contracts.contexts import CONDITIONINGS
from cpmi_dagster.errors import BenchmarkError, UsageError
from cpmi_dagster.files.text import counted
from cpmi_dagster.installed import program
from cpmi_dagster.trajectories.steps import AUTO

RevisionOption = Annotated[str | None, typer.Option(help="Commit of a model on the hub.")]
REWARD_MODELS = "reward_models"
"""The table of the report on reward models."""
BY_DEFAULT = ",".join(name for name, entry in CONDITIONINGS.items() if entry.by_default)


@app.command(epilog="Example: `cpmi label --input rows.jsonl --model Qwen/Qwen2.5-1.5B --output labels.jsonl`")
def label(
    context: typer.Context,
    input: Annotated[
        str, typer.Option(help="Solutions: .jsonl, .json, .csv, .parquet, .arrow, .gz, a folder, or a hub id.")
    ],
    model: Annotated[str, typer.Option(help="Labeler: local folder, GGUF file, hub id, or miniature:labeler.")],
    output: Annotated[Path, typer.Option(help="The rows with their labels: .jsonl or .parquet.")],
    rewards: Annotated[
        str, typer.Option(help="Comma-separated reward types, e.g. cpmi,step_length.")
    ] = "cpmi,first_error,right_so_far",
    weights: Annotated[
        Path | None, typer.Option(help="File of `cpmi calibrate`, for first_error and right_so_far.")
    ] = None,
    split: SplitOption = AUTO,
    map: MapOption = None,
    quiet: QuietOption = False,
) -> None:
    """Label every step of a file of solutions: your rows and columns, with `steps`, `rewards` and `soft_labels`.

    If it is killed, run it again: it continues where it stopped. Rows that cannot be labelled have a `reason`.
    """
    from cpmi_dagster import definitions

    types = [name.strip() for name in rewards.split(",")]
    source = {"fields": parse_fields(map or []), "steps": split}
    with views.bar(ERR, "reading", quiet) as advance:
        labeling = definitions.labeling_settings(input, model, types, output, advance, weights, **source)
        settings = context.with_resource(labeling)
    until = ["dataset/soft_labels"]
    outcome = definitions.run_with_progress(settings, settings.shard_keys, [], False, ERR, quiet, until)
    outcome.check()
    from cpmi_dagster.benchmarks.label_quality import FEWEST_FOR_AN_ANSWER, FEWEST_SOLUTIONS
    from cpmi_dagster.rewards.registry import reward_type

    written = definitions.write_labelled(settings, output)
    labelled = written.labelled
    if not quiet:
        lines = views.describe_labelled(written, output)
        together = [name for name in types if reward_type(name).reads_labels]
        if together and (unknown := definitions.count_unknown(settings)):
            lines.append(
                f"Of {counted(unknown, 'solution')}, {' and '.join(together)} do not know whether the final answer is "
                "right: it or the gold answer is missing"
            )
        if labelled and "first_error" in types and weights is None:
            cpmi = ", the lowest cpmi no more often than a blind pick" if "cpmi" in types else ""
            lines.append(
                "Look first at the step of a solution with the lowest first_error: by labelers of 0.5B and 1.5B it was "
                f"the first error in a third of the solutions with an error{cpmi} (docs/first_error.md). Its "
                "weights are of other data; once twenty solutions are judged, right ones and wrong ones, `calibrate` "
                "fits them to yours"
            )
        if 0 < labelled < FEWEST_FOR_AN_ANSWER:
            lines.append(
                "Whether to train on these labels is not known, and not from this file alone: the answer takes "
                f"{FEWEST_FOR_AN_ANSWER} judged solutions"
            )
        elif labelled:
            lines.append(
                "Whether to train on these labels is not known yet: judge "
                f"{counted(min(FEWEST_SOLUTIONS, labelled), 'solution')} with "
                f"`{program()} explore{settings.profile_option}`, which compares the labels with your judgements"
            )
        OUT.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
    if not labelled:
        raise typer.Exit(1)


@app.command(
    epilog="Example: `cpmi score --model miniature:labeler --input trajectories.jsonl --output scores.parquet`"
)
def score(
    model: Annotated[str, typer.Option(help="Local folder, GGUF file, hub id, or miniature:labeler.")],
    input: Annotated[str, typer.Option(help="Solutions with gold answers, in any form that `cpmi label` reads.")],
    output: Annotated[Path, typer.Option(help="Parquet file for the scores.")],
    answer_logprobs: Annotated[Path | None, typer.Option(help="Parquet file for the log-probabilities.")] = None,
    conditioning: Annotated[str, typer.Option(help="Comma-separated conditionings, or all.")] = BY_DEFAULT,
    templates: Annotated[int, typer.Option(min=1, max=4, help="The paper's first K prompts.")] = 4,
    layout: Annotated[
        Literal["paper", "released"],
        typer.Option(help="Prompts as printed in the paper, or as in the authors' code."),
    ] = "paper",
    scorer: Annotated[
        Literal["tree", "reference"], typer.Option(help="Packed trees, or one sequence at a time.")
    ] = "tree",
    reader: Annotated[
        Literal["auto", "flex", "blocked", "masked"], typer.Option(help="How the model reads token trees.")
    ] = "auto",
    row_tokens: Annotated[
        int | None, typer.Option(min=16, help="Tokens per packed row; chosen from the free memory by default.")
    ] = None,
    negatives: Annotated[int, typer.Option(min=1, help="Hard negatives to sample if the input has none.")] = 4,
    seed: Annotated[int, typer.Option(help="Seed for the sampled negatives.")] = 0,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    device_map: Annotated[
        str | None, typer.Option(help="Device map of accelerate, such as auto, for a model larger than one GPU.")
    ] = None,
    revision: RevisionOption = None,
    split: SplitOption = AUTO,
    map: MapOption = None,
    quiet: QuietOption = False,
) -> None:
    """Score a file of trajectories: CPMI of every step under every template and conditioning."""
    from cpmi_dagster import definitions
    from cpmi_dagster.scoring.trajectories import score_file

    names = parse_conditionings(conditioning)
    outputs = [path for path in (output, answer_logprobs) if path is not None]
    rows = definitions.read_file(input, outputs, fields=parse_fields(map or []), steps=split)
    optional = {"row_tokens": row_tokens, "device_map": device_map, "revision": revision}
    given = {name: value for name, value in optional.items() if value is not None}
    with views.bar(ERR, "scoring", quiet) as advance:
        result = score_file(
            model,
            rows,
            output,
            answer_logprobs,
            advance,
            conditionings=names,
            templates=templates,
            layout=layout,
            scorer=scorer,
            reader=reader,
            negatives=negatives,
            seed=seed,
            device=device,
            dtype=dtype,
            **given,
        )
    for name, reason in result.rejected.select("id", "reason").iter_rows():
        ERR.warn(f"{name} was not scored: {reason}")
    if not quiet:
        trajectories = counted(result.scores["id"].n_unique(), "trajectory", "trajectories")
        OUT.print(f"{counted(result.scores.height, 'score')} of {trajectories} in {output}", markup=False)


@app.command(epilog="Example: `cpmi judge --prm models/cpmi_bce --input solutions.jsonl --output judged.jsonl`")
def judge(
    prm: Annotated[
        str, typer.Option(help="Folder of a reward model (trained here, exported, or from elsewhere), or a hub id.")
    ],
    input: Annotated[str, typer.Option(help="Solutions, in any form that `cpmi label` reads.")],
    output: Annotated[Path, typer.Option(help="The rows with steps, probabilities, first_error: .jsonl or .parquet.")],
    threshold: Annotated[float, typer.Option(min=0, max=1, help="Steps below this probability are wrong.")] = 0.5,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    form: Annotated[
        str | None,
        typer.Option(help="Form of such a reward model (docs/score_and_judge.md); by default that of its files."),
    ] = None,
    revision: RevisionOption = None,
    split: SplitOption = AUTO,
    map: MapOption = None,
    quiet: QuietOption = False,
) -> None:
    """Judge a file of solutions with a reward model: a probability for every step, and the first wrong one."""
    from cpmi_dagster import definitions
    from cpmi_dagster.prm.predict import predict_file, unpredicted
    from cpmi_dagster.trajectories.given_rows import check_format

    if "-" in (input, str(output)):
        raise UsageError("`cpmi judge` reads and writes files, and no standard input or output; give both by name")
    check_format(output, "judgements")
    given = definitions.read_file(input, [output], for_judge=True, fields=parse_fields(map or []), steps=split)
    with views.bar(ERR, "judging", quiet) as advance:
        rows = predict_file(prm, given, output, advance, threshold, device, dtype, form, revision)
    rejected = unpredicted(given, rows)
    for name, reason in rejected.items():
        ERR.warn(f"{name} was not judged: {reason}")
    if rejected:
        ERR.warn(f"{len(rejected):,} of {counted(len(rows), 'line')} were not judged")
    if not quiet:
        judged = [row["first_error"] for row in rows if row["reason"] is None]
        lines = [f"{counted(len(judged), 'solution')} judged in {output}"]
        lines += (
            [f"first error at step 0 in {judged.count(0):,} of them, none in {judged.count(-1):,}"] if judged else []
        )
        lines += [f"the model: {believed}"] if (believed := _describe_model(prm)) else []
        OUT.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
    if len(rejected) == len(rows):
        raise typer.Exit(1)


def _describe_model(prm: str) -> str:
    """What the report of a home says of one of its reward models; empty for a model from elsewhere.

    Args:
        prm: a model as for `judge`, such as `.cpmi/mine/models/cpmi_bce`.
    """
    from cpmi_dagster.contracts.keys import FIGURES
    from cpmi_dagster.contracts.report_tables import TOPIC_OF
    from cpmi_dagster.reports.summary import describe_models
    from cpmi_dagster.resources.lake.lake import Lake

    folder, topic = Path(prm).absolute(), TOPIC_OF[REWARD_MODELS]
    lake = Lake(folder.parents[1]) if folder.is_dir() and folder.parent.name == "models" else None
    if lake is None or not lake.has_file(FIGURES, topic):
        return ""
    return describe_models(lake.read(FIGURES, topic).filter(artifact=REWARD_MODELS)).get(folder.name, "")


@app.command(epilog="Example: `cpmi evaluate --predictions judged.jsonl --profile paper`")
def evaluate(
    predictions: Annotated[Path, typer.Option(help="JSON Lines: benchmark, id, probabilities.")],
    name: Annotated[str | None, typer.Option(help="Name of the judge; the file's name by default.")] = None,
    benchmark: Annotated[
        str | None, typer.Option(help="The benchmark, if the lines do not name it: prmbench, ...")
    ] = None,
    profile: ProfileOption = None,
    format: FormatOption = "table",
) -> None:
    """ProcessBench and PRMBench figures of an external judge, from its step probabilities."""
    import polars as pl

    from cpmi_dagster.benchmarks.predictions import benchmarks_named, read_prediction_lines
    from cpmi_dagster.benchmarks.registry import read_benchmark
    from cpmi_dagster.contracts.tables import BenchmarkProblems
    from cpmi_dagster.reports import benchmark_tables
    from cpmi_dagster.resources.sources.data_sources import DataSources

    judge_name, settings = name or predictions.name.partition(".")[0], load_profile(profile)
    if not settings.sources.benchmarks:
        raise BenchmarkError(
            f"profile `{settings.profile}` has no benchmarks to evaluate on; add some to sources.benchmarks, or give "
            "another --profile"
        )
    lines, sources = read_prediction_lines(predictions, benchmark), DataSources(settings)
    named, given = benchmarks_named(lines), settings.sources.benchmarks.items()
    read = [read_benchmark(key, sources.rows(source)) for key, source in given if key in named]
    problems, samples = pl.concat([BenchmarkProblems.create_empty(), *read]), settings.benchmarks.bootstrap_samples
    figures = benchmark_tables.evaluate(judge_name, lines, problems, samples, settings.seed)
    views.show_evaluation(OUT, figures, f"{judge_name}, on the benchmarks of profile {settings.profile}", format)
