"""A model is asked once: whatever happened before, it is asked for the difference of two sets, which tests work out."""

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.seeded import text_hash
from cpmi_dagster.errors import LakeError
from cpmi_dagster.generation.engine import Draws, Generation
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.resources.answers import questions as kept
from cpmi_dagster.resources.answers.cache import AnswerCache, check_unchanged
from cpmi_dagster.resources.answers.questions import CONTINUATION, CONTINUATION_KEY, CachingEngine

QUESTION, VALUE = {"question": pl.UInt64()}, {"value": pl.Float64(), "tokens": pl.Int64()}
SAMPLING = Sampling(temperature=1.0, top_p=1.0, max_new_tokens=8)
CHUNK = 2
HASHES = {text_hash(str(number)): str(number) for number in range(13)}
TEXTS = st.lists(st.sampled_from([*HASHES.values()]), max_size=8)
DAMAGE = st.tuples(st.sampled_from(["delete", "truncate", "flip"]), st.integers(0, 100_000))
ASK = st.tuples(st.just("ask"), TEXTS, st.integers(1, 6), st.integers(0, 9))
STEPS = st.lists(st.one_of(ASK, DAMAGE), min_size=2, max_size=8)
law = hypothesis_settings(max_examples=int(os.environ.get("LAW_EXAMPLES", "30")))


class Killed(Exception):
    """Stands for `kill -9`."""


@dataclass
class Kept:
    """The questions whose answers are in the files of a folder, by path and bytes of a file."""

    folder: Path
    questions: dict[tuple[Path, bytes], set[Any]] = field(default_factory=dict)

    @property
    def paths(self) -> list[Path]:
        """Files of answers."""
        return sorted(self.folder.rglob(".calls/**/*.parquet"))

    @property
    def known(self) -> set[Any]:
        """The questions that need not be asked."""
        return {question for path in self.paths for question in self.questions[path, path.read_bytes()]}

    def look(self, questions_in: Callable[[pl.DataFrame], Iterable[Any]]) -> None:
        """Note the files that were written just now."""
        for path in self.paths:
            if (path, content := path.read_bytes()) not in self.questions:
                self.questions[path, content] = {*questions_in(pl.read_parquet(content))}

    def damage(self, paths: Sequence[Path], what: str, number: int) -> None:
        """Damage a file, which has no answers then; one in which the same bit flips twice is whole again."""
        if not paths:
            return
        path = paths[number % len(paths)]
        content = path.read_bytes()
        place = number * 7919 % max(1, len(content))
        flipped = bytes([content[place] ^ 1 << number % 8]) + content[place + 1 :] if content else b""
        path.write_bytes(content[:place] + (flipped if what == "flip" else b""))
        self.questions.setdefault((path, path.read_bytes()), set())
        if what == "delete":
            path.unlink()


@dataclass
class Model:
    """Answers by the texts, and counts what it is asked; killed after so many chunks."""

    lives: int = 1000
    asked: list[object] = field(default_factory=list)
    identity = "model@1"

    def ask(self, part: pl.DataFrame, report: Callable[[float], None] = lambda _: None) -> tuple[pl.DataFrame, Cost]:
        texts = part["text"].to_list()
        self.live(texts)
        values = part.with_columns(value=pl.col("text").cast(pl.Float64), tokens=pl.col("text").str.len_chars())
        return values, cost(texts)

    def prepare(self) -> None: ...

    def generate(self, prompts, draws, work=None) -> list[list[Generation]]:
        self.live([(prompt, number) for prompt in prompts for number in draws.numbers])
        return [[Generation(f"{prompt} {number}", 1, False, 2) for number in draws.numbers] for prompt in prompts]

    def live(self, asked: list[Any]) -> None:
        if self.lives == 0:
            raise Killed
        self.lives -= 1
        self.asked += asked


def cost(texts: Iterable[str]) -> Cost:
    tokens = sum(map(len, texts))
    return Cost(tokens / 4, 2 * tokens, tokens)


def calls(folder: Path, place: str = "4/000", facts: object = "m@1", **options: Any) -> AnswerCache:
    return AnswerCache(folder, {"model": facts}, place, QUESTION, VALUE, **options)


def rows(*texts: str) -> pl.DataFrame:
    hashes = pl.Series("question", map(text_hash, texts), pl.UInt64)
    return pl.DataFrame({"row": range(len(texts)), "text": texts}).with_columns(hashes)


def follow(steps: list[Any], ask: Callable[[Path, Model, list[str], int], set[Any]]) -> None:
    """Ask and damage files in turn: the model is asked for what is wanted and not kept, each question once."""
    with TemporaryDirectory() as name:
        kept = Kept(Path(name))
        for what, *more in steps:
            if what != "ask":
                kept.damage(kept.paths, what, more[0])
                continue
            texts, number, lives = more
            model, known = Model(lives or 1000), kept.known
            try:
                wanted = ask(kept.folder, model, texts, number)
                assert {*model.asked} == wanted - known
            except Killed:
                assert not known & {*model.asked}
            assert len(model.asked) == len({*model.asked})
            kept.look(questions_in)


def questions_in(frame: pl.DataFrame) -> list[object]:
    if "question" in frame.columns:
        return [HASHES[key] for key in frame["question"]]
    return [(HASHES[key], number) for key, number in frame["prompt", "sample"].rows()]


@law
@given(STEPS)
def test_a_model_is_asked_for_what_is_not_kept_and_every_answer_and_cost_is_that_of_a_fresh_home(steps):
    def ask(folder: Path, model: Model, texts: list[str], shards: int) -> set[Any]:
        place = calls(folder, f"{shards}/000")
        answered = place.answers(rows(*texts), model.ask, CHUNK, weight="tokens")
        assert answered["row", "text", "value"].rows() == [(row, text, float(text)) for row, text in enumerate(texts)]
        assert place.spent(answered) == cost({*texts})
        return {*texts}

    follow(steps, ask)


@law
@given(STEPS)
def test_an_engine_samples_what_is_not_kept_once_for_equal_prompts(steps):
    def ask(folder: Path, model: Model, prompts: list[str], samples: int) -> set[Any]:
        engine = CachingEngine(
            AnswerCache(folder, {}, "4/000", CONTINUATION_KEY, CONTINUATION), "m", lambda: model, CHUNK
        )
        texts = [[each.text for each in group] for group in engine.generate(prompts, Draws(SAMPLING, samples, 0))]
        assert texts == [[f"{prompt} {number}" for number in range(samples)] for prompt in prompts]
        assert engine.spent.generated_tokens == len({*prompts}) * samples
        return {(prompt, number) for prompt in prompts for number in range(samples)}

    follow(steps, ask)


def test_progress_tells_work_within_a_chunk_and_none_for_what_is_kept(tmp_path):
    told, lengths = [], rows("1", "2", "10", "11").with_columns(work=pl.col("text").str.len_chars())

    def ask(part: pl.DataFrame, report: Callable[[float], None]) -> tuple[pl.DataFrame, Cost]:
        report(0)
        report(0.5)
        return Model().ask(part)

    def advance(count: int, done: float | None = None, left: float | None = None) -> None:
        told.append((count, done, left))

    calls(tmp_path).answers(lengths.head(1), ask, 1)
    calls(tmp_path).answers(lengths, ask, 2, advance=advance, work="work")
    first = [(0, 0, 5), (0, 1.5, 3.5), (0, 1.5, 2), (2, 0, 2)]
    assert told == [(1, None, 5), *first, (0, 0, 2), (0, 1, 1), (0, 1, 0), (1, 0, 0)]


def test_a_model_that_changes_meanwhile_keeps_nothing_more(tmp_path):
    facts, model = ["m@1", "float32"], Model()

    def ask(part: pl.DataFrame, report: Callable[[float], None]) -> tuple[pl.DataFrame, Cost]:
        if model.asked:
            facts[1] = "float16"
        return model.ask(part, report)

    place = calls(tmp_path, unchanged=lambda: check_unchanged(["m@1", "float32"], lambda: facts))
    with pytest.raises(LakeError, match="the files of the model m@1 changed while it was asked; nothing is kept"):
        place.answers(rows("1", "2", "3"), ask, 1)
    calls(tmp_path).answers(rows("1", "2", "3"), model.ask, 1)
    assert model.asked == ["1", "2", "2", "3"]


def test_another_model_or_way_of_asking_shares_no_answers_though_its_files_are_copied(tmp_path):
    model = Model()
    for facts in ("m@1", "m@2", ["m@1", "released"], "m@1"):
        calls(tmp_path, facts=facts).answers(rows("1"), model.ask, 1)
    assert model.asked == ["1", "1", "1"]
    calls(tmp_path, facts="m@2").answers(rows("2"), model.ask, 1)
    places = {path: path.parent for path in tmp_path.rglob("*.parquet")}
    for path in places:
        for folder in {*places.values()} - {path.parent}:
            shutil.copy(path, folder / f"copy of {path.name}")
    calls(tmp_path).answers(rows("2"), model.ask, 1)
    assert model.asked == ["1", "1", "1", "2", "2"]


def test_step_values_are_read_once_for_equal_solutions_and_come_in_order(tmp_path):
    read: list[str] = []

    def values(part: pl.DataFrame, advance: Callable[[int], None]) -> pl.DataFrame:
        read.extend(part["question"])
        step_index = pl.int_range(pl.len()).over("id").alias("step_index")
        rows = part.explode("steps").drop_nulls("steps")
        return rows.select("id", step_index, score=pl.col("steps").str.len_chars().cast(pl.Float64))

    def scores(questions: str) -> list[tuple[str, int, float]]:
        steps = pl.Series([[] if name == "e" else [name, name * 2] for name in questions], dtype=pl.List(pl.String))
        frame = pl.DataFrame({"id": [*questions.upper()], "question": [*questions], "steps": steps})
        calls = AnswerCache(tmp_path, {"head": "h@1"}, "all/all", kept.STEPS_KEY, kept.step_values(pl.Float64()))
        return kept.cached_step_values(calls, frame, "score", values, 2).rows()

    assert scores("bab") == [(name, step, step + 1.0) for name in "BAB" for step in (0, 1)]
    assert scores("cea") == [(name, step, step + 1.0) for name in "CA" for step in (0, 1)]
    assert scores("e") == [] and sorted(read) == ["a", "b", "c", "e"]
