"""`cpmi label`: a file of solutions in, the same rows with labels for every step out; no profile needed.

in   {"id": "a7", "question": "2 + 3?", "response": "2 + 3 = 5.", "answer": 5}
out  the same and "steps": ["2 + 3 = 5."], "rewards": {"cpmi": [0.8]}, "soft_labels": {"cpmi": [0.9]}, "reason": null

It runs the DAG up to the soft labels in the home `.cpmi/label-…` of the working folder, named by the hash of input and
model, so a killed labeling goes on, and one of a longer file asks for the new rows alone.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from cpmi_dagster.contracts.keys import (
    CONTROL_LOGPROBS,
    REJECTED_ROWS,
    REJECTED_TRAJECTORIES,
    SOFT_LABELS,
    STEP_REWARDS,
    TRAJECTORIES,
)
from cpmi_dagster.contracts.tables import SoftLabels
from cpmi_dagster.errors import SettingsError, UsageError
from cpmi_dagster.files.locks import locked
from cpmi_dagster.files.places import expanded
from cpmi_dagster.files.whole_files import whole_file
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.commands.given_rows import check_outputs, own_rows
from cpmi_dagster.resources.commands.init import new_profile
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.parquet import hash_of
from cpmi_dagster.resources.sources.data_sources import source_at
from cpmi_dagster.rewards.dataset import step_lists
from cpmi_dagster.rewards.hazard import read_weights
from cpmi_dagster.rewards.labelled_rows import OURS, add_labels
from cpmi_dagster.rewards.registry import reward_type
from cpmi_dagster.trajectories.given_rows import check_format, plain, write_rows

HOMES = Path(".cpmi")
NAME_CHARACTERS = 12


@contextmanager
def labeling_settings(
    source: str,
    model: str,
    rewards: Sequence[str],
    output: Path,
    advance: Callable[[int, int], None] = lambda count, total: None,
    weights: Path | None = None,
    **settings: Any,
) -> Iterator[Settings]:
    """Write the profile that labels a file, beside its home, and load it; another labeling of the file waits meanwhile.

    Args:
        source: file, folder or hub id, in any form that `cpmi init` reads.
        model: the labeler.
        rewards: reward types.
        output: file of the labels.
        advance: called with the percent of the source just read, and 100.
        weights: file of `cpmi calibrate`; by default the one that ships.
        settings: of the source, as in `new_profile`.

    Raises:
        UsageError: the output does not end in .jsonl or .parquet, or is the input; or the reward types are refused, or
            read labels that no row has, and the profile of an earlier call stays.
        SettingsError, ModelError, SourceError: as `new_profile`.
    """
    check_format(output, "labels")
    if weights is not None:
        read_weights(weights)
    place = expanded(source)
    check_outputs(source_at(source, settings), output)
    facts = {"source": str(place.absolute()) if place.exists() else source, "model": model, **settings}
    name = f"label-{hash_of(facts)[:NAME_CHARACTERS]}"
    with locked(HOMES / name / ".locks" / "label.lock"):
        new = new_profile(source, model, HOMES / f"{name}.yaml", force=True, advance=advance, **settings)
        wanted = {"types": list(rewards), **({"weights": str(weights.absolute())} if weights else {})}
        profile = yaml.safe_load(new.text) | {"rewards": wanted, "recipes": []}
        with whole_file(new.path) as unfinished:
            unfinished.write_text(yaml.safe_dump(profile, sort_keys=False, allow_unicode=True), encoding="utf-8")
            try:
                load_settings(unfinished, HOMES / name)
            except SettingsError as error:
                reason = str(error).removeprefix(f"profile `{unfinished}`: ").rpartition(" is wrong: ")[2]
                raise UsageError(f"--rewards {','.join(rewards)}: {reason}") from error
            unlabelled = [name for name in rewards if "corpus_labels" in reward_type(name).demand.inputs]
            if unlabelled and not new.look.labelled:
                raise UsageError(f"--rewards {unlabelled[0]}: no row has labels, which it reads; leave it out")
        yield load_settings(new.path, HOMES / name)


class Written(NamedTuple):
    """The rows of a labelled file.

    Attributes:
        labelled: rows with labels.
        some: those of them without some label.
        reasons: of rows without some or all labels; how many have each.
    """

    rows: int
    labelled: int
    some: int
    reasons: Counter[str]


def write_labelled(settings: Settings, output: Path) -> Written:
    """Write the rows of the input with their labels, in order; `reason` says why a row lacks some."""
    kinds: Counter[tuple[bool, bool]] = Counter()
    reasons: Counter[str] = Counter()

    def counted() -> Iterator[dict[str, Any]]:
        for row in _labelled_rows(settings):
            kinds[bool(row["rewards"]), row["reason"] is None] += 1
            if row["reason"] is not None:
                reasons[row["reason"]] += 1
            yield row

    write_rows(output, counted(), OURS)
    return Written(kinds.total(), kinds[True, True] + kinds[True, False], kinds[True, False], reasons)


def count_unknown(settings: Settings) -> int:
    """The number of solutions of which nobody knows whether the final answer is right."""
    answers = Lake.of(settings).read(TRAJECTORIES, settings.shard_keys).select("gold_answer", "final_answer")
    return answers.height - answers.drop_nulls().height


def _labelled_rows(settings: Settings) -> Iterator[dict[str, Any]]:
    lake, shards = Lake.of(settings), settings.shard_keys
    trajectories, unread, rejected, rewards = (
        lake.read(key, shards) for key in (TRAJECTORIES, REJECTED_ROWS, REJECTED_TRAJECTORIES, STEP_REWARDS)
    )
    labels = step_lists(rewards.join(lake.read(SOFT_LABELS), on=SoftLabels.primary_key()))
    given = ((row, number) for row, number, _ in own_rows(settings, lake))
    notes = [note for record in lake.records(CONTROL_LOGPROBS, shards) for note in record.notes]
    for row in add_labels(given, trajectories, unread, rejected, labels, settings.rewards.types, notes):
        yield {name: plain(value) for name, value in row.items()}
