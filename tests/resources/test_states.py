"""The law of states: after any edits a home has the rows of a fresh one, and made no part that it had.

`LAW_EXAMPLES=150` looks at more sequences of edits than the suite does.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from cpmi_dagster.contracts.contexts import CONDITIONINGS, contexts_of
from cpmi_dagster.contracts.keys import LOGPROBS, NEGATIVES, POLICY_ROLLOUTS, SELECTED, SOFT_LABELS, STEP_REWARDS
from cpmi_dagster.contracts.label_tables import AnswerLogprobs
from cpmi_dagster.contracts.tables import TABLES, HardNegatives, Rollouts, StepRewards
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.profiles.sources import DataSource
from cpmi_dagster.resources.dag.progress import LoggedProgress
from cpmi_dagster.resources.dag.stage import Stage, stage
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.dag.states import States
from cpmi_dagster.resources.lake.current_files import LAKE
from cpmi_dagster.resources.lake.database import Database
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.parts import MADE_TOGETHER, PART, PART_OF_ROW, part_of_logprob, partitions_of
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.resources.workers.chunks import StageOutput
from cpmi_dagster.resources.workers.language_models import LanguageModels, Role

EXAMPLES = int(os.environ.get("LAW_EXAMPLES", "6"))
SHARDS = ("000", "001")
TYPES = (("cpmi",), ("mc",), ("cpmi_merge1",), ("pav",), ("gold_only",), ("cpmi", "mc"))
LENGTHS, STEPS = range(1, 6), 3
SCORED = (NEGATIVES, LOGPROBS, POLICY_ROLLOUTS)


@dataclass
class World:
    """A source, the weights of a model, the code versions of stages, and what each run of a stage made."""

    source: Path
    code: dict[str, str] = field(default_factory=dict)
    weights: int = 0
    made: list[tuple[str, str | None, tuple[str, ...]]] = field(default_factory=list)

    def stages(self) -> list[Stage]:
        """Six stages over real tables; their rows say what they were made of."""
        source = DataSource(path=str(self.source))

        def made(run: StageRun, partition: str | None) -> str:
            self.made.append((run.tables[0], partition, tuple(run.parts)))
            return self.code.get(run.tables[0], "1")

        @stage(SELECTED, sources=lambda _: {"rows": source})
        def selected(run: StageRun) -> StageOutput:
            code, rows = made(run, None), map(json.loads, self.source.read_text().splitlines())
            return StageOutput(
                pl.DataFrame(
                    [{"trajectory_id": r["id"], "question_id": code, "shard": r["shard"], "task": "GSM8K",
                      "composition": "mixed"} for r in rows]
                )
            )  # fmt: skip

        @stage(
            NEGATIVES,
            inputs=[SELECTED],
            settings=["negatives.max_answer_characters"],
            asks=["demand.negatives"],
            models=["labeler"],
        )
        def negatives(run: StageRun, shard: str) -> StageOutput:
            longest, seed = run.settings.negatives.max_answer_characters, run.settings.seed
            says = f"{made(run, shard)}-{longest}-{seed}-{self.weights}"
            rows = [(name, int(rank), f"{says}-{rank}", "model") for name in chosen(run, shard) for rank in run.parts]
            return StageOutput(pl.DataFrame(rows, HardNegatives.create_empty().schema, orient="row"))

        @stage(
            LOGPROBS,
            inputs=[SELECTED, NEGATIVES],
            asks=["demand.conditionings", "scoring.templates", "demand.negatives"],
        )
        def logprobs(run: StageRun, shard: str) -> StageOutput:
            says = made(run, shard)
            answers = {(name, rank): answer for name, rank, answer, _ in run.read(NEGATIVES, shard).rows()}
            rows = [
                (name, template, *context, rank, -float(sum(map(ord, says + answers.get((name, rank), "gold")))), 1)
                for name in chosen(run, shard)
                for template in range(run.settings.scoring.templates)
                for context in contexts_of(CONDITIONINGS, STEPS)
                for rank in range(run.settings.demand.negatives + 1)
            ]
            every = pl.DataFrame(rows, AnswerLogprobs.create_empty().schema, orient="row")
            parts = every.with_columns(part_of_logprob(pl.lit(STEPS)).alias(PART))
            return StageOutput(parts.filter(pl.col(PART).is_in(list(run.parts))))

        @stage(POLICY_ROLLOUTS, inputs=[SELECTED], asks=["demand.policy_steps", "rollouts.policy_count"])
        def rollouts(run: StageRun, shard: str) -> StageOutput:
            says = made(run, shard)
            rows = [
                (name, length, number, f"{says}-{length}-{number}", True, 1, False, "")
                for name in chosen(run, shard)
                for length in LENGTHS
                for number in range(run.settings.rollouts.policy_count)
            ]
            every = pl.DataFrame(rows, Rollouts.create_empty().schema, orient="row")
            return StageOutput(every.filter(PART_OF_ROW[POLICY_ROLLOUTS].is_in(list(run.parts))))

        @stage(STEP_REWARDS, inputs=SCORED)
        def rewards(run: StageRun, shard: str) -> StageOutput:
            says = made(run, shard)
            read = [run.read(key, shard) for key in SCORED]
            value = float(sum(sum(map(ord, str(frame.rows()))) for frame in read))
            return StageOutput(pl.DataFrame([(says, 0, "mc", value)], StepRewards.create_empty().schema, orient="row"))

        @stage(SOFT_LABELS, inputs=[STEP_REWARDS])
        def labels(run: StageRun) -> StageOutput:
            made(run, None)
            rows = run.read(STEP_REWARDS).with_row_index("step_index_", 0)
            return StageOutput(
                rows.select(
                    "trajectory_id", step_index=pl.col("step_index_").cast(pl.Int64), reward_type="reward_type",
                    soft_label=(pl.col("reward") % 97) / 97,
                )
            )  # fmt: skip

        declared = (selected, negatives, logprobs, rollouts, rewards, labels)
        return [replace(each, code_version=self.code.get(each.table, "1")) for each in declared]

    def run(self, settings: Settings, is_damaged: bool = False) -> dict[str, pl.DataFrame]:
        """Bring a home up to date; its tables."""
        stages = self.stages()
        by_table: Mapping[str, Any] = {each.table: each for each in stages}
        lake, models = Lake.of(settings), Weights(settings, self)
        places = [(each, name) for each in stages for name in partitions_of(each.table, settings) or [None]]
        before = States(settings, lake, models, DataSources(settings), by_table)
        made_before = {(each.table, name) for each, name in places if before.state(each.table, name).kind == "current"}
        for declared in stages:
            run = StageRun(
                declared.name, declared.tables, settings, lake, models, DataSources(settings),
                Unpublished(lake), LoggedProgress(), "r", lambda _: None, inputs=declared.inputs, stages=by_table,
            )  # fmt: skip
            for partition in partitions_of(declared.table, settings) or [None]:
                declared.bring_up_to_date(run, partition)
        # a bit that flips is found when all bytes are read
        assert is_damaged or not made_before & {(table, partition) for table, partition, _ in self.made}
        states = States(settings, Lake.of(settings), models, DataSources(settings), by_table)
        assert {states.state(each.table, name).kind for each, name in places} == {"current"}
        return {each.table: lake.read(each.table, partitions_of(each.table, settings)) for each in stages}


class Weights(LanguageModels):
    """Models of which the world has the weights."""

    def __init__(self, settings: Settings, world: World) -> None:
        super().__init__(settings)
        self._world = world

    def facts(self, role: Role) -> list[str]:
        """Its weights."""
        return [role, str(self._world.weights)]


class Unpublished(Database):
    """No database: nobody asks."""

    def publish_soon(self) -> None:
        """Nothing."""


def chosen(run: StageRun, shard: str) -> list[str]:
    return run.read(SELECTED).filter(pl.col("shard") == shard)["trajectory_id"].to_list()


def edited(settings: Settings, what: str, value: int) -> Settings:
    if what == "types":
        part = settings.rewards.model_copy(update={"types": TYPES[value % len(TYPES)]})
        return settings.model_copy(update={"rewards": part})
    if what == "seed":
        return settings.model_copy(update={"seed": value})
    section, name = what.split(".")
    part = getattr(settings, section).model_copy(update={name: 1 + value % 4})
    return settings.model_copy(update={section: part})


def damaged(home: Path, what: str, value: int) -> str | None:
    """Delete a file of the lake, or flip a bit of it; its name."""
    files = sorted((home / LAKE).glob("*/*/*/*.parquet"))
    if not files:
        return None
    file = files[value % len(files)]
    data = bytearray(file.read_bytes())
    data[value % len(data)] ^= 1
    file.unlink() if what == "delete" else file.write_bytes(data)
    return str(file.relative_to(home))


def made_of(world: World, settings: Settings, lake: Lake, key: str, partition: str | None, part: str) -> str:
    """What decides on the rows of a part, by values alone."""
    inputs = {
        SELECTED: lambda: world.source.read_text(),
        NEGATIVES: lambda: (rows(SELECTED), settings.negatives.max_answer_characters, world.weights),
        POLICY_ROLLOUTS: lambda: rows(SELECTED),
        LOGPROBS: lambda: (
            rows(SELECTED),
            lake.read(NEGATIVES, partition).filter(pl.col("rank").cast(pl.String) == part.rpartition("/")[2]).rows(),
        ),
        STEP_REWARDS: lambda: [lake.read(each, partition).rows() for each in SCORED],
        SOFT_LABELS: lambda: lake.read(STEP_REWARDS, SHARDS).rows(),
    }

    def rows(table: str) -> Sequence[Any]:
        return lake.read(table).filter(pl.col("shard") == partition).rows()

    return repr((key, partition, part, world.code.get(key, "1"), settings.seed, inputs[key]()))


EDITS = st.tuples(
    st.sampled_from(
        ["types", "negatives.count", "scoring.templates", "rollouts.policy_count", "negatives.max_answer_characters",
         "seed", "row", "code", "weights", "delete", "flip", "profile"]
    ),
    st.integers(0, 1000),
)  # fmt: skip


@hypothesis_settings(max_examples=EXAMPLES)
@given(st.lists(EDITS, min_size=2, max_size=6))
# both files of the log-probabilities have a part of a rank that is read of one of them
@example([("negatives.max_answer_characters", 0), ("negatives.count", 0)])
def test_after_any_edits_a_home_has_the_rows_of_a_fresh_one_and_made_nothing_that_it_had(edits):
    with TemporaryDirectory() as place:
        folder = Path(place)
        source = folder / "rows.jsonl"
        lines = [{"id": f"t{number}", "shard": SHARDS[number % 2]} for number in range(3)]
        source.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        world, had = World(source), dict[str, str]()
        base = load_settings("miniature", folder / "home").model_copy(update={"shards": len(SHARDS)})
        profiles = {name: base.model_copy(update={"profile": name}) for name in ("one", "other")}
        name = "one"
        for what, value in [("types", 0), *edits]:
            if what == "profile":
                name = "other" if name == "one" else "one"
            elif what == "row":
                lines[value % len(lines)]["id"] = f"t{value}-{value % len(lines)}"
                source.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
            elif what == "weights":
                world.weights = value % 3
            elif what == "code":
                table = world.stages()[value % 6].table
                world.code[table] = str(1 + value % 3)
            elif what in ("delete", "flip"):
                lost = damaged(folder / "home", what, value)
                had = {made: file for made, file in had.items() if file != lost}
            else:
                profiles[name] = edited(profiles[name], what, value)
            settings = profiles[name]
            world.made.clear()
            found, lake = world.run(settings, what == "flip"), Lake.of(settings)
            for key, partition, parts in world.made:
                own = {part: made_of(world, settings, lake, key, partition, part) for part in parts}
                again = [part for part, made in own.items() if made in had]
                assert not again or (key in MADE_TOGETHER and len(again) < len(parts)), (key, partition, again)
            for key, table in TABLES.items():
                for partition in lake.partitions(key) if table.partitioning else [None]:
                    for file, parts in (lake.entry(key, partition) or {}).items():
                        for part in parts:
                            made = made_of(world, settings, lake, key, partition, part)
                            had[made] = f"{LAKE}/{key}/{partition or 'all'}/{file}"
            fresh = World(source, dict(world.code), world.weights).run(
                settings.model_copy(update={"home": folder / "fresh"})
            )
            for key, frame in found.items():
                assert frame.equals(fresh[key]), key
            for file in sorted((folder / "fresh").rglob("*"), reverse=True):
                file.rmdir() if file.is_dir() else file.unlink()
