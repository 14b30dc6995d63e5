"""Settings of what is read: trajectories, step labels, reference problems, benchmarks.

sources:
  trajectories: {path: "miniature:math_shepherd"}           or a list of sources, read in order
  trajectories: {sample: {questions: {path: ./questions.jsonl}, solutions: 4}}     or the policy's solutions
  step_labels:
    my_judge: {path: ./labels.jsonl}          a user-supplied reward type, named `my_judge`
  references:                                 gold answers of trajectories that have none
    - {source: gsm8k, hub: openai/gsm8k, config: main, split: train}
    - {source: my_set, path: ./problems.jsonl}
  benchmarks:
    math500: {hub: HuggingFaceH4/MATH-500, split: test}
"""

import re
from math import ceil
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator, model_validator

from cpmi_dagster.alignment import GIVEN
from cpmi_dagster.contracts.frozen import Frozen
from cpmi_dagster.generation.settings import SolutionSampling
from cpmi_dagster.miniature.names import MINIATURE
from cpmi_dagster.rewards.registry import REWARD_TYPES
from cpmi_dagster.trajectories.forms import check_name
from cpmi_dagster.trajectories.rows import RowFormat
from cpmi_dagster.trajectories.steps import AUTO, Splitting

REFERENCE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
LABEL_NAME = re.compile(r"[a-z][a-z0-9_]*")
KEYS_OF_A_SOURCE = ("path", "hub", "name")
DUCKDB = ".duckdb"


class DataSource(Frozen):
    """Where a data set is: a local file or folder, a part of the embedded world, or a hub id with its revision."""

    path: str | None = Field(
        default=None,
        description="local file (.jsonl, .json, .csv, .parquet, .arrow, .gz, .duckdb), folder, or miniature:NAME",
    )
    relation: str | None = Field(default=None, description="table or view of a DuckDB file, e.g. raw.solutions")
    hub: str | None = Field(default=None, description="hub id, e.g. openai/gsm8k")
    config: str | None = Field(default=None, description="hub configuration name")
    revision: str | None = Field(default=None, description="hub commit; resolved at first use and locked when empty")
    split: str = Field(default="train", description="split to read, and the split its rows are filed under")
    limit: int | None = Field(default=None, ge=1, description="read only the first rows")

    @model_validator(mode="after")
    def _exactly_one_place(self) -> "DataSource":
        if (self.path is None) == (self.hub is None):
            raise ValueError("a source needs exactly one of `path` and `hub`")
        if (self.relation is None) == str(self.path).lower().endswith(DUCKDB):
            raise ValueError("`relation` names a table of a `path` that ends in .duckdb; give both, or neither")
        return self

    @property
    def place(self) -> str:
        """The path or hub id, with the relation."""
        return f"{self.path or self.hub}{f', {self.relation}' if self.relation else ''}"

    @property
    def is_embedded(self) -> bool:
        """Whether it is a part of the embedded world."""
        return self.place.startswith(MINIATURE)


class TrajectorySource(DataSource):
    """Trajectories: names of their fields, and where a solution that is one text is split into steps.

    With `{sample: {questions: SOURCE, solutions: 4}}`, the policy samples the solutions of the questions.
    """

    fields: dict[str, str] = Field(default={}, description="the file's name of a field, by ours: {gold_answer: answer}")
    steps: Splitting = Field(default=AUTO, description="where a solution that is one text is split into steps")
    sample: SolutionSampling | None = Field(default=None, description="questions and how the policy solves them")

    @model_validator(mode="before")
    @classmethod
    def _of_questions(cls, values: Any) -> Any:
        if not isinstance(values, dict) or not isinstance(values.get("sample"), dict):
            return values
        sampling = dict(values["sample"])
        questions = sampling.pop("questions", None)
        if questions is None and {"path", "hub"} & set(values):
            return values
        if not isinstance(questions, dict):
            raise ValueError("`sample` needs its `questions`, a source such as {path: ./questions.jsonl}")
        if both := sorted({"path", "hub", *questions} & set(values)):
            raise ValueError(f"`{both[0]}` and `sample` are given, and name two sources; keep one of them")
        return values | questions | {"sample": sampling}

    @field_validator("fields")
    @classmethod
    def _are_fields(cls, fields: dict[str, str]) -> dict[str, str]:
        for name in fields:
            check_name(name)
        return fields

    @property
    def row_format(self) -> RowFormat:
        """How the rows are read."""
        return RowFormat(self.fields, self.steps, self.place, of_questions=self.sample is not None)

    def written(self, path: str | None) -> dict[str, Any]:
        """The source as a profile writes it, with another path unless that is None."""
        values: dict[str, Any] = self.model_dump(exclude_defaults=True) | ({} if path is None else {"path": path})
        if self.sample is None:
            return values
        steps = {"steps": values.pop("steps")} if "steps" in values else {}
        sample = values.pop("sample")
        return {"sample": {"questions": values, **sample}, **steps}


class ReferenceSource(DataSource):
    """A set of problems with gold answers: gsm8k, math, or any set under a name of yours."""

    source: str = Field(description="name of the set; `match_source` of a trajectory has it")

    @field_validator("source")
    @classmethod
    def _is_a_name(cls, source: str) -> str:
        if not REFERENCE_NAME.fullmatch(source) or source == GIVEN:
            raise ValueError(
                f"`{source}` cannot name references; use lower-case letters, digits, hyphens and underscores, and not "
                f"`{GIVEN}`, which is the name of answers that come with the trajectories"
            )
        return source


class StepLabelSource(DataSource):
    """User-supplied step labels: rows with `trajectory_id` or `row_number`, and `rewards`, a number for every step."""

    probabilities: bool = Field(default=False, description="they are in [0, 1] and are not normalised, like MC's")


def _as_list(value: Any) -> Any:
    """A single source as a list; null as an empty one."""
    if value is None:
        return ()
    return value if isinstance(value, list | tuple) else (value,)


SourceList = Annotated[tuple[TrajectorySource, ...], BeforeValidator(_as_list)]
"""One source, or several that are read in order, with row numbers that continue."""


class Sources(Frozen):
    """Everything that is read."""

    trajectories: SourceList = Field(min_length=1, description="the trajectories")
    step_truth: SourceList = Field(default=(), description="whether their steps are right, if that is known")
    step_labels: dict[str, StepLabelSource] = Field(default={}, description="user-supplied labels, by name")
    references: tuple[ReferenceSource, ...] = Field(
        default=(), description="problems in which gold answers are looked up for trajectories that have none"
    )
    benchmarks: dict[str, DataSource] = Field(default={}, description="benchmarks and question sets, by name")

    @model_validator(mode="after")
    def _samples_alone(self) -> "Sources":
        if self.sample and len(self.trajectories) > 1:
            raise ValueError("solutions are sampled from one source of questions; name it alone")
        if any(source.sample for source in self.step_truth):
            raise ValueError("step_truth is read; name a source without `sample`")
        return self

    @field_validator("step_labels")
    @classmethod
    def _names_are_free(cls, labels: dict[str, StepLabelSource]) -> dict[str, StepLabelSource]:
        for name in labels:
            if name in REWARD_TYPES or name in KEYS_OF_A_SOURCE or not LABEL_NAME.fullmatch(name):
                raise ValueError(
                    f"`{name}` cannot name user-supplied labels; use lower-case letters, digits and underscores, a "
                    "letter first, and no name of a reward type or of a key of a source"
                )
        return labels

    @property
    def probability_labels(self) -> tuple[str, ...]:
        """Names of user-supplied labels that are probabilities already."""
        return tuple(name for name, source in self.step_labels.items() if source.probabilities)

    @property
    def sample(self) -> SolutionSampling | None:
        """How solutions are sampled; None if trajectories are read."""
        return next((source.sample for source in self.trajectories if source.sample), None)

    @property
    def solutions_of_each(self) -> int:
        """Solutions sampled of each question; 0 if trajectories are read."""
        return self.sample.solutions if self.sample else 0

    @property
    def solution_sampling(self) -> dict[str, Any] | None:
        """Sampling settings of one solution; None if trajectories are read."""
        return self.sample.model_dump(exclude={"solutions"}) if self.sample else None

    @property
    def reference_sets(self) -> list[tuple[str, str | None]]:
        """Name and hub configuration of each set of references: what their rows have beside those of the source."""
        return [(source.source, source.config) for source in self.references]

    @property
    def solution_steps(self) -> Splitting | None:
        """Where sampled solutions are split into steps; None if trajectories are read."""
        return self.trajectories[0].steps if self.sample else None

    def for_pilot(self, trajectories: int) -> "Sources":
        """The sources of a pilot: if solutions are sampled, only as many questions as it needs."""
        if not self.sample:
            return self
        [questions] = self.trajectories
        enough = ceil(trajectories / self.solutions_of_each)
        limited = questions.model_copy(update={"limit": min(enough, questions.limit or enough)})
        return self.model_copy(update={"trajectories": (limited,)})
