"""Settings of what is read from outside: trajectories, their step labels, reference problems, benchmarks.

sources:
  trajectories: {path: "miniature:math_shepherd"}           or a list of sources, read one after the other
  trajectories: {sample: {questions: {path: ./questions.jsonl}, solutions: 4}}     or the policy's solutions
  step_labels:
    my_judge: {path: ./labels.jsonl}          a user-supplied reward type, named `my_judge`
  references:                                 where gold answers are looked up; none where every row has its own
    - {source: gsm8k, hub: openai/gsm8k, config: main, split: train}
    - {source: my_set, path: ./problems.jsonl}
  benchmarks:
    math500: {hub: HuggingFaceH4/MATH-500, split: test}
"""

import json
import re
from math import ceil
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator, model_validator

from cpmi_dagster.contracts.frozen import Frozen
from cpmi_dagster.generation.settings import SolutionSampling
from cpmi_dagster.rewards.registry import REWARD_TYPES
from cpmi_dagster.trajectories.forms import FIELD_NAMES
from cpmi_dagster.trajectories.identifiers import GIVEN
from cpmi_dagster.trajectories.rows import Reading
from cpmi_dagster.trajectories.solution_text import AUTO, Splitting

REFERENCE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
LABEL_NAME = re.compile(r"[a-z][a-z0-9_]*")
KEYS_OF_A_SOURCE = ("path", "hub", "name")
DUCKDB = ".duckdb"
EARLIER_NAME = "math_shepherd"
"""Of the trajectories, in profiles that are older."""


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
        """The path or the hub id, whichever is given, with the relation."""
        return f"{self.path or self.hub}{f', {self.relation}' if self.relation else ''}"


class TrajectorySource(DataSource):
    """Trajectories: how their fields are called, and where solutions that are one text are split into steps.

    `{sample: {questions: SOURCE, solutions: 4}}` is the source of the questions, with how their solutions are sampled.
    """

    fields: dict[str, str] = Field(default={}, description="the file's name of a field, by ours: {gold_answer: answer}")
    steps: Splitting = Field(default=AUTO, description="where a solution that is one text is split into steps")
    sample: SolutionSampling | None = Field(default=None, description="questions and how the policy solves them")

    @model_validator(mode="before")
    @classmethod
    def _of_questions(cls, values: Any) -> Any:
        if not isinstance(values, dict) or not isinstance(values.get("sample"), dict):
            return values
        asked = dict(values["sample"])
        questions = asked.pop("questions", None)
        if questions is None and {"path", "hub"} & set(values):
            return values
        if not isinstance(questions, dict):
            raise ValueError("`sample` needs its `questions`, a source such as {path: ./questions.jsonl}")
        if both := sorted({"path", "hub", *questions} & set(values)):
            raise ValueError(f"`{both[0]}` and `sample` are given, and name two sources; keep one of them")
        return values | questions | {"sample": asked}

    @field_validator("fields")
    @classmethod
    def _are_fields(cls, fields: dict[str, str]) -> dict[str, str]:
        for name in fields:
            if name not in FIELD_NAMES:
                raise ValueError(f"`{name}` is no field of trajectories; choose from {', '.join(FIELD_NAMES)}")
        return fields

    @property
    def reading(self) -> Reading:
        """How its rows are read."""
        return Reading(self.fields, self.steps, self.place, of_questions=self.sample is not None)

    def written(self, path: str | None) -> dict[str, Any]:
        """The source as a profile has it, with another path."""
        values: dict[str, Any] = self.model_dump(exclude_defaults=True) | ({} if path is None else {"path": path})
        if self.sample is None:
            return values
        own = {"steps": values.pop("steps")} if "steps" in values else {}
        sample = values.pop("sample")
        return {"sample": {"questions": values, **sample}, **own}


class ReferenceSource(DataSource):
    """A set of problems with gold answers: gsm8k, math, or a set of another name and of any origin."""

    source: str = Field(description="name of the set, by which trajectories say where their gold answer is from")

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
    """User-supplied step labels: rows of `trajectory_id` or `row_number`, and `rewards`, a number for every step."""

    probabilities: bool = Field(default=False, description="they are in [0, 1] and are not normalised, like MC's")


def with_trajectories(sources: Any) -> Any:
    """Sources with the trajectories by their name where they have the earlier one, which wins over it."""
    if not isinstance(sources, dict) or EARLIER_NAME not in sources:
        return sources
    given = sources[EARLIER_NAME]
    # of a variable of the environment it is text: only values of known names are read as JSON there
    given = json.loads(given) if isinstance(given, str) else given
    others = {name: value for name, value in sources.items() if name not in (EARLIER_NAME, "trajectories")}
    return {"trajectories": given, **others}


def _several(value: Any) -> Any:
    """A single source as a list of one; null as a list of none."""
    if value is None:
        return ()
    return value if isinstance(value, list | tuple) else (value,)


SourceList = Annotated[tuple[TrajectorySource, ...], BeforeValidator(_several)]
"""One source, or several that are read one after the other: the numbers of their rows count on."""


class Sources(Frozen):
    """Everything read from outside."""

    trajectories: SourceList = Field(min_length=1, description="the trajectories; `math_shepherd` is its earlier name")
    step_truth: SourceList = Field(default=(), description="whether their steps are right, where that is known")
    step_labels: dict[str, StepLabelSource] = Field(default={}, description="user-supplied labels, by name")
    references: tuple[ReferenceSource, ...] = Field(
        default=(), description="problems in which gold answers are looked up for trajectories that have none"
    )
    benchmarks: dict[str, DataSource] = Field(default={}, description="benchmarks and question sets, by name")

    @model_validator(mode="before")
    @classmethod
    def _by_the_earlier_name(cls, sources: Any) -> Any:
        return with_trajectories(sources)

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
        """Names of the own labels that are probabilities already."""
        return tuple(name for name, source in self.step_labels.items() if source.probabilities)

    @property
    def sample(self) -> SolutionSampling | None:
        """How solutions are sampled, where the trajectories are not read."""
        return next((source.sample for source in self.trajectories if source.sample), None)

    @property
    def solutions_of_each(self) -> int:
        """How many are sampled of each question."""
        return self.sample.solutions if self.sample else 0

    @property
    def solution_sampling(self) -> dict[str, Any] | None:
        """How the policy is asked for one; None where trajectories are read."""
        return self.sample.model_dump(exclude={"solutions"}) if self.sample else None

    @property
    def solution_steps(self) -> Splitting | None:
        """Where sampled solutions are split into steps."""
        return self.trajectories[0].steps if self.sample else None

    def asked_for(self, trajectories: int) -> "Sources":
        """The sources of a pilot: where solutions are sampled, of no more questions than it labels solutions of."""
        if not self.sample:
            return self
        [questions] = self.trajectories
        enough = ceil(trajectories / self.solutions_of_each)
        limited = questions.model_copy(update={"limit": min(enough, questions.limit or enough)})
        return self.model_copy(update={"trajectories": (limited,)})
