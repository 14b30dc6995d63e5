"""A home of a few trajectories whose files are edited, lost and killed, and what its models are asked.

    world.edit("scoring.templates", 3)      four templates
    world.run()                             every table is made; models were asked for the third and fourth alone

A question is what a model reads, as text or token ids. Damage to files of answers is in the laws of `test_calls.py`.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from cpmi_dagster.assets import alignment, labels, selection, sources
from cpmi_dagster.contracts.keys import NEGATIVES, POLICY_ROLLOUTS, SCORES, STEP_REWARDS, TRAJECTORIES
from cpmi_dagster.contracts.seeded import derived_seed
from cpmi_dagster.generation.engine import Generation
from cpmi_dagster.models.language_models import LoadedModel, load_language_model
from cpmi_dagster.profiles.partitions import is_needed, partitions_of
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.making import bring_up_to_date
from cpmi_dagster.resources.dag.progress import Progress
from cpmi_dagster.resources.dag.stage import Stage
from cpmi_dagster.resources.dag.stage_run import Home, StageRun
from cpmi_dagster.resources.lake.home_file import note_home
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.models.language_models import LanguageModels
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.scoring.answer_trees import written_out
from cpmi_dagster.scoring.tokenization import Tokenized

STAGES = (
    sources.math_shepherd, sources.reference_problems, sources.step_labels, sources.step_truth, alignment.trajectories,
    selection.selected_trajectories, labels.hard_negatives, labels.answer_logprobs, labels.control_logprobs,
    labels.template_scores, labels.policy_rollouts, labels.prover_rollouts, labels.step_rewards,
)  # fmt: skip
TYPES = [["cpmi"], ["cpmi", "mc"], ["cpmi_prefix", "cpmi_merge1"], ["gold_only"], ["cpmi", "step_surprisal"]]
NUMBERS = {"scoring.templates": 4, "negatives.count": 3, "rollouts.policy_count": 3, "shards": 3, "training.epochs": 9}
Question = tuple[Any, ...]


class Killed(Exception):
    """Stands for `kill -9`."""


@cache
def labeler() -> LoadedModel:
    return load_language_model("miniature:labeler", dtype="float32", device="cpu")


@dataclass
class World:
    """A home, what its models were asked since the last edit, and what they were ever asked.

    Attributes:
        folder, rows: of the source.
        code: code versions of tables whose code has changed.
        lives: times that models can be asked before the process is killed.
    """

    folder: Path
    rows: list[dict[str, Any]]
    settings: Settings
    code: dict[str, str] = field(default_factory=dict)
    lives: int = 1000
    asked: list[Question] = field(default_factory=list)
    known: set[Question] = field(default_factory=set)

    def ask(self, questions: list[Question]) -> None:
        """Models are asked for nothing that they ever answered; that is on disk by now, also if they are killed."""
        if self.lives == 0:
            raise Killed
        self.lives -= 1
        assert len({*questions} - self.known) == len(questions), "a model is asked again"
        self.asked += questions
        self.known |= {*questions}

    @property
    def lake(self) -> Lake:
        return Lake.of(self.settings)

    def run(self) -> list[str]:
        """Bring every table up to date; gives what was made."""
        (self.folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in self.rows))
        declared = [replace(each, code_version=self.code.get(each.table, each.code_version)) for each in STAGES]
        models = Counted(self.settings, self)
        by_table: dict[str, Stage] = {
            key: each for each in declared for key in each.tables if is_needed(key, self.settings)
        }
        note_home(self.settings, self.lake.remove_shards)
        home = Home(self.settings, self.lake, models, DataSources(self.settings), Progress(), by_table)
        return [
            each.table
            for each in declared
            if is_needed(each.table, self.settings)
            for name in (partitions_of(each.table, self.settings) if each.partitioning else None) or [None]
            if self._run(each, name, home)
        ]

    def _run(self, each: Stage, partition: str | None, home: Home) -> bool:
        return bring_up_to_date(StageRun(each, home, partition, "r", lambda _: None)) is not None

    def scored(self, score: Any, batches: Iterable[tuple[int, Tokenized]], *others: Any) -> Any:
        """What a scorer gives, whose questions are counted."""
        batches = list(batches)
        trajectories = [each for _, tokenized in batches for each in tokenized.trajectories]
        self.ask([(each.of_steps, *read) for each in trajectories for _, *read in written_out([each])])
        return score(batches, *others)

    def edit(self, what: str, value: int) -> None:
        self.asked.clear()
        if what == "row":
            row = self.rows[value % len(self.rows)]
            name = ("question", "steps", "gold_answer")[value // 4 % 3]
            row[name] = row_of(value % 5)[name]
        elif what == "code":
            self.code[(TRAJECTORIES, SCORES, STEP_REWARDS)[value % 3]] = str(100 + value % 5)
        elif what == "kill":
            self.lives = value % 3
        elif what in ("delete", "flip"):
            tables = sorted(self.lake.root.glob("*/*/*.parquet"))
            content = bytearray((path := tables[value % len(tables)]).read_bytes())
            content[value * 7919 % len(content)] ^= 1 << value % 8
            path.unlink() if what == "delete" else path.write_bytes(content)
        else:
            self.settings = edited(self.settings, what, value)


def edited(settings: Settings, what: str, value: int) -> Settings:
    group, _, name = what.rpartition(".")
    new = 1 + value % NUMBERS[what] if what in NUMBERS else value % 3
    if what == "rewards.types":
        new = tuple(TYPES[value % len(TYPES)])
    elif what == "scoring.conditionings":
        new = (("incremental",), ("prefix", "leave_one_out"), ())[value % 3]
    changed = getattr(settings, group).model_copy(update={name: new}) if group else new
    return settings.model_copy(update={group or name: changed})


class Counted(LanguageModels):
    """The real labeler scores; what is sampled is made up of a hash of what was asked."""

    def __init__(self, settings: Settings, world: World) -> None:
        super().__init__(settings)
        self._world = world

    def load(self, role: Any) -> LoadedModel:
        return labeler()

    def engine(self, role: Any, batch_sequences: int) -> Any:
        return Engine(self._world, NEGATIVES if role == "labeler" else POLICY_ROLLOUTS)


@dataclass
class Engine:
    world: World
    key: str
    identity: str = "made up"

    def prepare(self) -> None: ...

    def generate(self, prompts, draws, work=None) -> list[list[Generation]]:
        numbers, seed = draws.numbers, draws.seed
        self.world.ask([(self.key, prompt, number, seed) for prompt in prompts for number in numbers])
        values = [[derived_seed(seed, [prompt, number]) % 20 for number in numbers] for prompt in prompts]
        return [[Generation(f"The answer is: {value}\n", 1 + value, False, 3) for value in group] for group in values]


def row_of(number: int) -> dict[str, Any]:
    """Trajectories of which some share a question or a step."""
    hats, more = 3 + number % 2, 2 + number % 3
    steps = [f"She buys {more} hats. {hats} + {more} = {hats + more}.", f"The answer is: {hats + more + number % 2}"]
    return {
        "question": f"Ann has {hats} hats and buys {more}. How many?",
        "steps": steps,
        "gold_answer": str(hats + more),
    }
