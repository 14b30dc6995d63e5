"""A home of a few trajectories whose files are edited, lost and killed, and what its models should be asked.

    world.edit("scoring.templates", 3)      four templates
    world.run()                             every table is made; models were asked for the third and fourth alone

What is asked is worked out from the texts of trajectories; what is kept, from the bytes of files as they were written.
Imported by the law of labels.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

import polars as pl
from kept_questions import Kept, Killed

from cpmi_dagster.assets import alignment, labels, selection, sources
from cpmi_dagster.contracts.contexts import Context, before_each_step, contexts_of
from cpmi_dagster.contracts.keys import (
    CONTROLS,
    LOGPROBS,
    NEGATIVES,
    POLICY_ROLLOUTS,
    SCORES,
    SELECTED,
    STEP_REWARDS,
    TRAJECTORIES,
)
from cpmi_dagster.contracts.seeded import derived_seed
from cpmi_dagster.generation.engine import Generation
from cpmi_dagster.models.language_models import LoadedModel, load_language_model
from cpmi_dagster.negatives.hard_negatives import negative_prompt
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.declaration import Declaration
from cpmi_dagster.resources.dag.progress import LoggedProgress
from cpmi_dagster.resources.dag.stage import Stage
from cpmi_dagster.resources.dag.stage_run import Home, StageRun
from cpmi_dagster.resources.lake.kept_answers import ADMISSION_KEY
from cpmi_dagster.resources.lake.lake import Lake, partitions_of
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.resources.workers.language_models import LanguageModels
from cpmi_dagster.trajectories.templates import render_context, render_step, render_target

STAGES = (
    sources.math_shepherd, sources.reference_problems, sources.step_labels, sources.step_truth, alignment.trajectories,
    selection.selected_trajectories, labels.hard_negatives, labels.answer_logprobs, labels.control_logprobs,
    labels.template_scores, labels.policy_rollouts, labels.prover_rollouts, labels.step_rewards,
)  # fmt: skip
TYPES = [["cpmi"], ["cpmi", "mc"], ["cpmi_prefix", "cpmi_merge1"], ["gold_only"], ["cpmi", "step_surprisal"]]
NUMBERS = {"scoring.templates": 4, "negatives.count": 3, "rollouts.policy_count": 3, "shards": 3, "training.epochs": 9}
Question = tuple[Any, ...]


@cache
def labeler() -> LoadedModel:
    return load_language_model("miniature:labeler", dtype="float32", device="cpu")


@dataclass
class World:
    """A home, what its models were asked, what is kept, and what each table was made of.

    Attributes:
        folder: of the source.
        rows: of the source.
        code: code versions of tables whose code has changed.
        lives: times that models can be asked before the process is killed.
        asked: by the stage that runs.
        made: by table and partition, what it follows from, and the bytes of its files.
    """

    folder: Path
    rows: list[dict[str, Any]]
    settings: Settings
    code: dict[str, str] = field(default_factory=dict)
    lives: int = 1000
    asked: list[Question] = field(default_factory=list)
    kept: Kept = field(init=False)
    made: dict[tuple[str, str | None], tuple[str, list[bytes | None]]] = field(default_factory=dict)
    _pending: list[Question] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.kept = Kept(self.lake.root)

    def ask(self, questions: list[Question]) -> None:
        """Models are asked; what they answered before is on disk by now."""
        self.look()
        if self.lives == 0:
            raise Killed
        self.lives -= 1
        self.asked += questions
        self._pending += questions

    def look(self) -> None:
        """The file that was written just now has the answers to what was asked last."""
        self.kept.look(self._take)

    def _take(self, frame: pl.DataFrame) -> list[Question]:
        if ADMISSION_KEY.keys() <= {*frame.columns}:
            return []  # no model says which trajectories are too long
        taken, self._pending = self._pending, []
        return taken

    @property
    def lake(self) -> Lake:
        return Lake.of(self.settings)

    def run(self) -> None:
        """Bring every table up to date, and compare what models are asked with what is worked out from texts."""
        (self.folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in self.rows))
        declared = [replace(each, code_version=self.code.get(each.table, each.code_version)) for each in STAGES]
        models = Counted(self.settings, self)
        by_table: dict[str, Declaration] = {key: each for each in declared for key in each.tables}
        home = Home(self.settings, self.lake, models, DataSources(self.settings), LoggedProgress(), by_table)
        for each in declared:
            for partition in (partitions_of(each.table, self.settings) if each.partitioning else None) or [None]:
                self._run(each, partition, home)

    def _run(self, each: Stage, partition: str | None, home: Home) -> None:
        follows_from = self.follows_from(each, partition)
        files = [self.lake.path(*file) for file in home.states().files(each, partition)]
        is_current = self.made.get((each.table, partition)) == (follows_from, contents(files))
        wanted = set() if is_current else {*self.questions(each.table, partition)} - self.kept.known
        self.asked, self._pending = [], []
        try:
            shown = each.bring_up_to_date(StageRun(each, home, partition, "r", lambda _: None))
        except Killed:
            assert {*self.asked} < wanted
            raise
        finally:
            self.look()
        assert sorted(self.asked) == sorted(wanted), each.table
        assert all(("skipped" in facts) == is_current for facts in shown.values()), each.table
        self.made[each.table, partition] = follows_from, contents(files)

    def follows_from(self, each: Declaration, partition: str | None) -> str:
        """All that a table is made of, by values: code, settings, the rows of its inputs, the source."""
        if not each.asked(self.settings):
            return "nothing"
        inputs = [key for key in each.inputs if each.feeds(key, partition, self.settings)]
        shards = partition or self.settings.shard_keys
        rows = [self.lake.read(key, shards if partitions_of(key, self.settings) else None).rows() for key in inputs]
        values = [attrgetter(path)(self.settings) for path in each.settings]
        source = self.rows if each.sources(self.settings) else None
        return repr((each.code_version, self.settings.seed, values, rows, source))

    def questions(self, key: str, shard: str | None) -> Iterator[Question]:
        """What the table of a shard needs to know of a model, from the texts of its trajectories."""
        demand, lake, seed = self.settings.demand, self.lake, self.settings.seed
        if key not in (NEGATIVES, LOGPROBS, CONTROLS, POLICY_ROLLOUTS) or shard is None:
            return
        chosen = lake.read(TRAJECTORIES, shard).join(lake.read(SELECTED, shard), on="trajectory_id", how="semi")
        wrong = lake.read(NEGATIVES, shard) if key == LOGPROBS else pl.DataFrame(schema={"trajectory_id": pl.String})
        for name, question, steps, gold in chosen.select("trajectory_id", "question", "steps", "gold_answer").rows():
            if key == NEGATIVES and demand.negatives:
                prompt = negative_prompt(self.settings.negatives, question, steps, gold)
                yield from ((key, prompt, number, seed) for number in range(self.settings.negatives.samples))
            for length in range(1, len(steps[: demand.policy_steps]) + 1) if key == POLICY_ROLLOUTS else ():
                prompt, drawn = render_context(question, steps[:length]), derived_seed(seed, ["rollouts"])
                yield from ((key, prompt, number, drawn) for number in range(self.settings.rollouts.policy_count))
            answers = [gold, *wrong.filter(trajectory_id=name)["answer"]] if key == LOGPROBS else []
            contexts = contexts_of(demand.conditionings, len(steps)) if key == LOGPROBS else ()
            controlled = before_each_step(len(steps)) if key == CONTROLS and demand.asks_for[CONTROLS] else ()
            for template in range(self.settings.scoring.templates):
                for context in contexts:
                    yield from ((key, text(question, steps, template, context), render_target(one)) for one in answers)
                for context in controlled:
                    yield key, text(question, steps, template, context), render_step(steps[context.step_index + 1])

    def scorer(self, key: str, score: Any) -> Any:
        """A scorer that counts what it is asked."""

        def counted(trajectories: pl.DataFrame, *others: Any, **options: Any) -> Any:
            texts = {row["trajectory_id"]: row for row in trajectories.iter_rows(named=True)}
            wrong = {(name, rank): answer for name, rank, answer, _ in others[0].rows()} if key == LOGPROBS else {}
            questions = []
            for name, triples in options["wanted"].items():
                question, steps, gold = (texts[name][column] for column in ("question", "steps", "gold_answer"))
                for template, context, rank in triples:
                    target = render_target(wrong.get((name, rank), gold))
                    if key == CONTROLS:
                        target = render_step(steps[context.step_index + 1])
                    questions.append((key, text(question, steps, template, context), target))
            self.ask(questions)
            return score(trajectories, *others, **options)

        return counted

    def edit(self, what: str, value: int) -> None:
        if what == "row":
            row = self.rows[value % len(self.rows)]
            name = ("question", "steps", "gold_answer")[value // 4 % 3]
            row[name] = row_of(value % 5)[name]
        elif what == "code":
            self.code[(TRAJECTORIES, SCORES, STEP_REWARDS)[value % 3]] = str(100 + value % 5)
        elif what == "kill":
            self.lives = value % 3
        elif what in ("delete", "truncate", "flip"):
            tables = sorted(self.lake.root.glob("*/*/*.parquet"))
            self.kept.damage(tables if value % 2 else self.kept.paths, what, value // 2)
        else:
            self.settings = edited(self.settings, what, value)


def contents(files: list[Path]) -> list[bytes | None]:
    return [file.read_bytes() if file.is_file() else None for file in files]


def text(question: str, steps: list[str], template: int, context: Context) -> str:
    return render_context(question, [steps[step] for step in context.steps(len(steps))], template)


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

    def generate(self, prompts, sampling, samples, seed, stop="answer", first=0) -> list[list[Generation]]:
        numbers = range(first, first + samples)
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
