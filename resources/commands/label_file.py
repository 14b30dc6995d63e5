"""`cpmi label`: a file of solutions in, the same rows with labels for every step out; no profile needed.

in   {"id": "a7", "question": "2 + 3?", "response": "2 + 3 = 5.", "answer": 5}
out  the same and "steps": ["2 + 3 = 5."], "rewards": {"cpmi": [0.8]}, "soft_labels": {"cpmi": [0.9]}, "reason": null

It runs the DAG up to the soft labels in the home `.cpmi/label-…` of the working folder, named by the hash of input and
model, so a killed labeling goes on, and one of a longer file asks for the new rows alone.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from cpmi_dagster.contracts.keys import REJECTED_ROWS, REJECTED_TRAJECTORIES, SOFT_LABELS, STEP_REWARDS, TRAJECTORIES
from cpmi_dagster.errors import SettingsError, UsageError
from cpmi_dagster.files.places import expanded
from cpmi_dagster.files.whole_files import check_writable, whole_file
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.commands.starter import starter_for
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.records import hash_of
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.trajectories.given_columns import as_cell, free_name, plain
from cpmi_dagster.trajectories.rows import Unreadable

HOMES = Path(".cpmi")
NAME_CHARACTERS = 12
FORMATS = (".jsonl", ".parquet")
OURS = ("steps", "rewards", "soft_labels", "reason")
"""The added columns; a column of the input with such a name, except `steps`, becomes `input_…`."""
UNANSWERED = "it has no gold answer, which {} needs: add one, or ask for --rewards step_surprisal, which needs none"


def labeling_settings(
    source: str,
    model: str,
    rewards: Sequence[str],
    output: Path,
    advance: Callable[[int, int], None] = lambda count, total: None,
    **settings: Any,
) -> Settings:
    """Write the profile that labels a file, beside its home, and load it.

    Args:
        source: file, folder or hub id, in any form that `cpmi init` reads.
        model: the labeler.
        rewards: reward types.
        output: file of the labels.
        advance: called with the percent of the source just read, and 100.
        settings: of the source, as in `starter_for`.

    Raises:
        UsageError: the output does not end in one of `FORMATS`, or is the input; or the reward types are refused, and
            the profile of an earlier call stays.
        SettingsError, ModelError, SourceError: as `starter_for`.
    """
    if output.suffix not in FORMATS:
        raise UsageError(f"--output {output}: labels are written as {' or '.join(FORMATS)}; give it such an ending")
    place = expanded(source)
    if output.exists() and place.exists() and output.samefile(place):
        raise UsageError(f"--output {output} is the input, which it would replace; give another name")
    check_writable(output)
    facts = {"source": str(place.absolute()) if place.exists() else source, "model": model, **settings}
    name = f"label-{hash_of(facts)[:NAME_CHARACTERS]}"
    HOMES.mkdir(exist_ok=True)
    starter = starter_for(source, model, HOMES / f"{name}.yaml", force=True, advance=advance, **settings)
    profile = yaml.safe_load(starter.text) | {"rewards": {"types": list(rewards)}, "recipes": []}
    with whole_file(starter.path) as unfinished:
        unfinished.write_text(yaml.safe_dump(profile, sort_keys=False, allow_unicode=True), encoding="utf-8")
        try:
            load_settings(unfinished, HOMES / name)
        except SettingsError as error:
            reason = str(error).removeprefix(f"profile `{unfinished}`: ").rpartition(" is wrong: ")[2]
            raise UsageError(f"--rewards {','.join(rewards)}: {reason}") from error
    return load_settings(starter.path, HOMES / name)


def write_labelled(settings: Settings, output: Path) -> tuple[int, int]:
    """Write the rows of the input with their labels, in order; `reason` says why a row lacks some.

    Returns:
        The numbers of labelled rows, and of all.
    """
    count = labelled = 0

    def counted() -> Iterator[dict[str, Any]]:
        nonlocal count, labelled
        for row in _labelled_rows(settings):
            count, labelled = count + 1, labelled + bool(row["rewards"])
            yield row

    with whole_file(output) as unfinished:
        if output.suffix == ".parquet":
            # a column may hold an object in one row and a text in another
            rows = [
                {name: value if name in OURS else as_cell(value) for name, value in row.items()} for row in counted()
            ]
            pl.DataFrame(rows, infer_schema_length=None, strict=False).write_parquet(unfinished)
        else:
            with unfinished.open("w", encoding="utf-8") as file:
                file.writelines(f"{json.dumps(row, ensure_ascii=False, default=str)}\n" for row in counted())
    return labelled, count


def _labelled_rows(settings: Settings) -> Iterator[dict[str, Any]]:
    lake, shards = Lake.of(settings), settings.shard_keys
    trajectories = lake.read(TRAJECTORIES, shards)
    rejected = lake.read(REJECTED_TRAJECTORIES, shards).select("trajectory_id", "reason")
    answered = pl.col("gold_answer").is_not_null()
    rows = trajectories.join(rejected, on="trajectory_id", how="left").select(
        "row_number", "trajectory_id", "steps", answered, pl.when(answered).then("reason")
    )
    by_number = {number: rest for number, *rest in rows.iter_rows()}
    reasons = dict(lake.read(REJECTED_ROWS, shards).select("row_number", "reason").iter_rows())
    rewards = _by_type(lake.read(STEP_REWARDS, shards), "reward")
    soft_labels = _by_type(lake.read(SOFT_LABELS), "soft_label")
    [source], types = settings.sources.trajectories, settings.rewards.types
    as_it_came = source.model_copy(update={"fields": {}})
    for number, (row, _) in enumerate(DataSources(settings).stream(as_it_came)):
        given = {"text": row.text} if isinstance(row, Unreadable) else row
        kept = {free_name(name, given, OURS[1:]): plain(value) for name, value in given.items()}
        otherwise = (None, given.get("steps"), True, reasons.get(number))
        trajectory_id, steps, is_answered, reason = by_number.get(number, otherwise)
        known = rewards.get(trajectory_id, {})
        if trajectory_id and reason is None and (lacking := [kind for kind in types if kind not in known]):
            unread = f"it has no {', '.join(lacking)}: it states no final answer, or the labeler cannot read it"
            reason = unread if is_answered else UNANSWERED.format(", ".join(lacking))
        yield {
            **kept,
            "steps": steps,
            "rewards": _of_each_step(known, steps),
            "soft_labels": _of_each_step(soft_labels.get(trajectory_id, {}), steps),
            "reason": reason,
        }


def _by_type(frame: pl.DataFrame, column: str) -> dict[str | None, dict[str, dict[int, float]]]:
    """Values by trajectory, reward type and step."""
    values: dict[str | None, dict[str, dict[int, float]]] = {}
    for name, kind, step, value in frame.select("trajectory_id", "reward_type", "step_index", column).iter_rows():
        values.setdefault(name, {}).setdefault(kind, {})[step] = value
    return values


def _of_each_step(values: Mapping[str, Mapping[int, float]], steps: Any) -> dict[str, list[float | None]] | None:
    """Lists by reward type, as long as the steps, null for a step without a value; None if there are none."""
    return {kind: [known.get(step) for step in range(len(steps))] for kind, known in values.items()} or None
