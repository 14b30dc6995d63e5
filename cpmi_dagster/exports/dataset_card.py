"""The README.md of an exported data set: what is in it, how it was made, of what, and what it cannot say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl
from huggingface_hub import DatasetCard, DatasetCardData

from cpmi_dagster.exports import FormName, shipped_text
from cpmi_dagster.exports.hard_labels import HardLabels
from cpmi_dagster.exports.licences import Licence
from cpmi_dagster.exports.rows import FORMS
from cpmi_dagster.files.text import in_markdown
from cpmi_dagster.miniature.names import MINIATURE
from cpmi_dagster.rewards.registry import REWARD_TYPES

TEMPLATE = "dataset_card.md.j2"
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
LARGER = "n>1M"


class Origin(NamedTuple):
    """A data set or model that an export comes from: what it is used for, where it is, and its licence."""

    use: str
    place: str
    revision: str
    licence: Licence


@dataclass(frozen=True)
class DatasetFacts:
    """What a data set's card says besides what its rows hold.

    Attributes:
        name: of the data set, its folder's or hub id's.
        hard: which steps the hard labels call right.
        models: behind the labels, with revisions or weights hashes, by what they did.
        method: settings that the labels depend on, by words.
        sources: the data sets behind it.
        left_out: trajectories that cannot be written in this form.
    """

    name: str
    profile: str
    form: FormName
    hard: HardLabels
    version: str
    models: Mapping[str, Sequence[str]]
    method: Mapping[str, str]
    sources: Sequence[Origin]
    left_out: int = 0


def dataset_card(facts: DatasetFacts, labelled: pl.DataFrame) -> str:
    """The card as Markdown, with the metadata that the hub and `datasets` read.

    Args:
        labelled: rows from `labelled_trajectories`.
    """
    hard, rows = facts.hard, labelled.height
    entry = REWARD_TYPES.get(hard.reward_type)
    licences = {source.licence.identifier for source in facts.sources}
    metadata = DatasetCardData(
        pretty_name=facts.name,
        # none where the sources differ, or one is not known
        license=licences.pop() if len(licences) == 1 else None,
        source_datasets=sorted({source.place for source in facts.sources if source.revision}) or None,
        size_categories=next((size for most, size in SIZES if rows < most), LARGER),
        tags=["process-reward-model", "prm", "step-labels", "cpmi", facts.form],
    )
    card = DatasetCard.from_template(
        metadata,
        template_str=shipped_text(TEMPLATE),
        facts=facts,
        hard=hard,
        hard_words=hard.words(labelled),
        entry=entry,
        is_generated=all(source.place.startswith(MINIATURE) for source in facts.sources),
        read_by=FORMS[facts.form].read_by,
        meanings=FORMS[facts.form].meanings(
            is_probability=hard.is_probability, is_contrast=entry is not None and entry.needs.contrasts
        ),
        statistics=statistics(labelled, hard),
        md=in_markdown,
    )
    return f"{card}\n"


def statistics(labelled: pl.DataFrame, hard: HardLabels) -> dict[str, str]:
    """What is counted in a data set, by words."""
    steps = labelled["steps"].list.len()
    soft = labelled["soft_labels"].explode(empty_as_null=False)
    right = labelled.select(hard.is_right.explode(empty_as_null=False)).to_series()
    all_right = labelled.select(hard.is_right.list.all()).to_series()
    counted = {
        "trajectories": f"{labelled.height:,}",
        "questions": f"{labelled['question_id'].n_unique():,}",
        "steps": f"{steps.sum():,}",
        "steps of a trajectory": f"{steps.median():g} in the median, {steps.max()} at most",
        "steps that the hard labels call right": f"{right.mean():.1%}",
        "soft labels": f"mean {soft.mean():.3f}, standard deviation {soft.std() or 0:.3f}",
        "trajectories whose steps the hard labels all call right": f"{all_right.mean():.1%}",
    }
    tasks = labelled.group_by("task").len().sort("len", "task", descending=[True, False])
    return counted | {f"task {in_markdown(task)}": f"{count:,} trajectories" for task, count in tasks.iter_rows()}
