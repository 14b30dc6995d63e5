"""`cpmi init`: summarizes a file of trajectories, and makes a first profile for it, with a comment on every choice.

new_profile("rows.jsonl", "Qwen/Qwen3-8B-Base")  ->  what the rows hold, and the text of rows.yaml, not yet written
new_profile(…, truth="judged.jsonl")             ->  which judgements fit the solutions, too
profile_text(look, "mine", {"path": "./rows.jsonl"}, "Qwen/Qwen3-8B-Base")
    -> "… shards: 4 # parts that are labelled one by one …\\nsources:\\n  trajectories: {path: ./rows.jsonl} # …"

It extends no other profile, so that nothing of the embedded world gets in. If no row has a gold answer, the reference
problems of the profile `paper` stand there, commented out until the user confirms that they fit.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cpmi_dagster.errors import SettingsError, SourceError
from cpmi_dagster.files.places import expanded
from cpmi_dagster.files.time_left import unseen
from cpmi_dagster.files.whole_files import check_writable, write_whole
from cpmi_dagster.files.yaml_files import read_yaml
from cpmi_dagster.miniature.names import MINIATURE
from cpmi_dagster.models.gguf import PACKAGE
from cpmi_dagster.models.language_models import model_on_disk
from cpmi_dagster.profiles.first_look import MOST_SHARDS, TRAJECTORIES_PER_SHARD, FirstLook, look_over
from cpmi_dagster.profiles.profile_files import PROFILES, check_name
from cpmi_dagster.profiles.sources import TrajectorySource
from cpmi_dagster.resources.models.gpus import sees_gpu
from cpmi_dagster.resources.sources.data_sources import DataSources, source_at
from cpmi_dagster.rewards.registry import REWARD_TYPES
from cpmi_dagster.trajectories.forms import JUDGEMENTS, UNIQUE_IDS
from cpmi_dagster.trajectories.rows import Row, Unreadable, number_batches
from cpmi_dagster.trajectories.step_truth import read_judgements
from cpmi_dagster.trajectories.truth_fitting import SOLUTION_COLUMNS, FittedTruth, fit_judgements

PERCENT = 100
TEMPLATE = "new_profile.yaml.j2"
SUFFIXES = (".yaml", ".yml")
CHEAP_TYPES = [name for name, entry in REWARD_TYPES.items() if entry.reads_no_gold or entry.is_free]
"""Controls that cost one more forward pass over the solutions, or nothing."""


@dataclass(frozen=True)
class NewProfile:
    """A profile to write, a summary of its trajectories, and its model, whose place is None for a hub id.

    Attributes:
        truth: the judgements of a file of their own, fitted to the trajectories.
    """

    path: Path
    text: str
    source: str
    look: FirstLook
    model: str
    model_place: Path | None
    truth: FittedTruth | None = None

    def write(self) -> None:
        """Write the profile."""
        write_whole(self.path, self.text)


def new_profile(
    source: str | Path,
    model: str,
    output: Path | None = None,
    force: bool = False,
    truth: str | None = None,
    advance: Callable[[int, int], None] = lambda count, total: None,
    **settings: Any,
) -> NewProfile:
    """Summarize trajectories, and make a profile that labels them and trains a reward model.

    Args:
        source: file or folder of the trajectories, or their hub id.
        model: labeler and backbone: local folder, GGUF file, `package:NAME/FILE.gguf`, hub id or `miniature:NAME`.
        output: file of the profile; by default the source's name with `.yaml`, in the working folder.
        force: replace an existing profile.
        truth: file or hub id of judgements of the trajectories' steps.
        advance: called with the percent just read, and 100.
        settings: of the source, as in `TrajectorySource`.

    Raises:
        SettingsError: the profile exists, its name is not one of a profile, or a setting of the source is wrong.
        ModelError: the model is not a model folder, a GGUF file or a hub id.
        SourceError: there is no such file, it holds no trajectories, no judgement fits, or the profile cannot be
            written.
    """
    fields = settings.pop("fields", {})
    of_truth = {name: field for name, field in fields.items() if truth and name in JUDGEMENTS}
    given = source_at(str(source), {**settings, "fields": {k: v for k, v in fields.items() if k not in of_truth}})
    if truth and given.sample:
        raise SettingsError("--truth judges solutions, and those of --sample are not there yet; name it in the profile")
    output = expanded(output or f"{Path(given.place).name.partition('.')[0]}.yaml")
    check_own_name(output)
    if output.is_file() and not force:
        raise SettingsError(f"the profile {output} already exists; give another --output, or --force to replace it")
    check_writable(output)
    model = os.path.expanduser(model)  # a Path would lose the `./` that tells a folder from a hub id
    place = model_on_disk(model)
    given, look = _look_at(given, advance)
    named = model if place is None or model.startswith((MINIATURE, PACKAGE)) else _from(output.parent, place)
    judged = _truth_at(truth, given, of_truth) if truth else None
    fitted = judged and _fit(judged, given)
    written, written_truth = (
        each and each.written(each.path and _from(output.parent, Path(each.path))) for each in (given, judged)
    )
    assert written is not None
    text = profile_text(look, output.stem, written, named, sees_gpu(), written_truth)
    return NewProfile(output, text, given.place, look, model, place, fitted)


def _look_at(given: TrajectorySource, advance: Callable[[int, int], None]) -> tuple[TrajectorySource, FirstLook]:
    """Look over the trajectories; if none has an `id`, one of `UNIQUE_IDS` is read as it, unless that loses a row."""

    def look_at(source: TrajectorySource, advance: Callable[[int, int], None] = unseen) -> FirstLook:
        solutions = source.sample and source.sample.solutions
        return look_over(source.place, _rows(source, advance), source.row_format, solutions)

    look = look_at(given, advance)
    for field in () if look.identified else [name for name in UNIQUE_IDS if name in look.first.unread]:
        named = given.model_copy(update={"fields": {**given.fields, "id": field}})
        if (again := look_at(named)).trajectories == look.trajectories:
            return named, again
    return given, look


def _truth_at(place: str, given: TrajectorySource, fields: Mapping[str, str]) -> TrajectorySource:
    """The source of judgements; the trajectories' names of fields hold for those that its first row has too."""
    alone = source_at(place, {})
    first = next((row for row, _ in DataSources().stream(alone) if not isinstance(row, Unreadable)), {})
    shared = {name: field for name, field in given.fields.items() if field in first and name not in first}
    return source_at(place, {"fields": {**shared, **fields}, "steps": given.steps})


def _fit(truth: TrajectorySource, given: TrajectorySource) -> FittedTruth:
    """Fit judgements to the trajectories, as a run does."""
    sources = DataSources()
    judgements = read_judgements((row, truth.row_format) for row, _ in sources.stream(truth))
    rows = (row for row, _ in sources.stream(given))
    frames = (frame.select(SOLUTION_COLUMNS) for frame in number_batches(rows, given.row_format))
    fitted = fit_judgements(judgements, frames, (row for row, _ in sources.stream(given)))
    if not fitted.fitting:
        raise SourceError(f"{truth.place} has no rows; give a file of judgements")
    return fitted


def _rows(source: TrajectorySource, advance: Callable[[int, int], None]) -> Iterator[tuple[Row, str]]:
    percent = 0
    for row, share, place in DataSources().places(source):
        yield source.row_format.named(row), place
        if int(PERCENT * share) > percent:
            advance(int(PERCENT * share) - percent, PERCENT)
            percent = int(PERCENT * share)


def _from(folder: Path, path: Path) -> str:
    """The path in a profile of a folder: relative, unless it was given absolute and lies elsewhere."""
    real = path.parent.resolve() / path.name
    relative = os.path.relpath(real, folder.resolve())
    if not relative.startswith(os.pardir):
        return os.path.join(os.curdir, relative)
    return str(path) if path.is_absolute() else relative


def profile_text(
    look: FirstLook,
    name: str,
    source: Mapping[str, Any],
    model: str,
    has_gpu: bool = True,
    truth: Mapping[str, Any] | None = None,
) -> str:
    """The text of a profile that labels all trajectories and trains two reward models on them.

    Args:
        look: counts of the trajectories.
        name: name of the profile.
        source: settings of the trajectories; a path is relative to the folder of the profile.
        model: labeler and backbone: a folder (likewise relative), a hub id or `miniature:NAME`.
        has_gpu: without one, the head of the reward model is trained alone.
        truth: settings of judgements in a file of their own.
    """
    from jinja2 import Environment, StrictUndefined

    paper = read_yaml(PROFILES / "paper.yaml")["sources"]
    environment = Environment(trim_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined)
    return environment.from_string((PROFILES / TEMPLATE).read_text(encoding="utf-8")).render(
        look=look,
        per_shard=TRAJECTORIES_PER_SHARD,
        most_shards=MOST_SHARDS,
        name=_one_line({"profile": name}, flow=False),
        source=_one_line(source),
        truth=truth and _one_line(truth),
        model=_one_line({"name": model, "dtype": "auto"}),
        references=[_one_line(reference) for reference in paper["references"]],
        cheap_types=CHEAP_TYPES,
        has_gpu=has_gpu,
        rollout_types=[entry.name for entry in REWARD_TYPES.values() if entry.demand.policy_steps != 0],
        prover_types=[entry.name for entry in REWARD_TYPES.values() if entry.demand.prover_steps != 0],
    )


def check_own_name(profile: Path) -> None:
    """Check the file name of a user's profile.

    Raises:
        SettingsError: it does not end in .yaml, is no plain file name, or is that of a shipped profile, whose results
            would be mixed with the user's.
    """
    name = profile.stem
    if profile.suffix not in SUFFIXES:
        raise SettingsError(f"--output {profile} is not the name of a profile; give one such as {name or 'mine'}.yaml")
    check_name(name, name)
    if (PROFILES / f"{name}.yaml").is_file():
        raise SettingsError(f"`{name}` is the name of a shipped profile; give --output another file name")


def _one_line(values: Mapping[str, Any], flow: bool = True) -> str:
    text = yaml.safe_dump(values, default_flow_style=flow, sort_keys=False, allow_unicode=True, width=float("inf"))
    return text.strip()
