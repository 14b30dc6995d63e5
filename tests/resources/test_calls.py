"""A model is asked once: whatever happened before, it is asked for the difference of two sets, which tests work out."""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from kept_questions import DAMAGE, Kept, Killed

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.seeded import text_hash
from cpmi_dagster.errors import LakeError, StorageError
from cpmi_dagster.generation.engine import Generation
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.resources.lake.calls import Calls, check_unchanged
from cpmi_dagster.resources.lake.kept_engine import ANSWER, KEY, KeptEngine

QUESTION, VALUE = {"question": pl.UInt64()}, {"value": pl.Float64(), "tokens": pl.Int64()}
SAMPLING = Sampling(temperature=1.0, top_p=1.0, max_new_tokens=8)
CHUNK = 2
EXAMPLES = int(os.environ.get("LAW_EXAMPLES", "30"))


@dataclass
class Model:
    """Answers by the texts, and counts what it is asked; killed after so many chunks."""

    lives: int = 1000
    asked: list[object] = field(default_factory=list)

    def ask(self, part: pl.DataFrame) -> tuple[pl.DataFrame, Cost]:
        self.live()
        texts = part["text"].to_list()
        self.asked += texts
        tokens = sum(map(len, texts))
        values = pl.DataFrame({"value": [float(text) for text in texts], "tokens": [len(text) for text in texts]})
        return pl.concat([part, values], how="horizontal"), Cost(tokens / 4, 2 * tokens, tokens)

    identity = "model@1"

    def prepare(self) -> None: ...

    def generate(self, prompts, sampling, samples, seed, stop="answer", first=0) -> list[list[Generation]]:
        self.live()
        numbers = range(first, first + samples)
        self.asked += [(prompt, number) for prompt in prompts for number in numbers]
        return [[Generation(f"{prompt} {number}", 1, False, 2) for number in numbers] for prompt in prompts]

    def live(self) -> None:
        if self.lives == 0:
            raise Killed
        self.lives -= 1


def calls(folder: Path, place: str = "4/000", unchanged: Callable[[], None] = lambda: None) -> Calls:
    return Calls(folder, {"model": ["m@1"]}, place, QUESTION, VALUE, unchanged)


def rows(texts: Sequence[str]) -> pl.DataFrame:
    hashes = pl.Series("question", [text_hash(text) for text in texts], pl.UInt64)
    return pl.DataFrame({"row": range(len(texts)), "text": texts}, {"row": pl.Int64, "text": pl.String}).with_columns(
        hashes
    )


ASKS = st.lists(st.integers(0, 12).map(str), max_size=8)
STEPS = st.lists(
    st.one_of(st.tuples(st.just("ask"), ASKS, st.integers(1, 3), st.integers(0, 9)), DAMAGE), min_size=2, max_size=8
)


@hypothesis_settings(max_examples=EXAMPLES)
@given(STEPS)
def test_a_model_is_asked_for_what_is_not_kept_and_every_answer_and_cost_is_that_of_a_fresh_home(steps):
    with TemporaryDirectory() as folder:
        kept, texts_by_hash = Kept(Path(folder)), {text_hash(str(number)): str(number) for number in range(13)}
        for what, *more in steps:
            if what != "ask":
                kept.damage(kept.paths, what, more[0])
                continue
            texts, shards, lives = more
            for shard in range(shards):
                asked = [text for text in texts if int(text) % shards == shard]
                model, known = Model(lives or 1000), kept.known
                place = calls(Path(folder), f"{shards}/{shard:03}")
                try:
                    answered = place.answers(rows(asked), model.ask, CHUNK, weight="tokens")
                    assert {*model.asked} == {*asked} - known
                    assert answered.select("row", "text", "value").rows() == [
                        (row, text, float(text)) for row, text in enumerate(asked)
                    ]
                    tokens = sum(map(len, {*asked}))
                    assert place.spent(answered) == Cost(tokens / 4, 2 * tokens, tokens)
                except Killed:
                    assert {*model.asked} < {*asked} - known and lives
                assert len(model.asked) == len({*model.asked})
                kept.look(lambda frame: {texts_by_hash[number] for number in frame["question"]})


PROMPTS = st.lists(st.sampled_from("abcd"), max_size=5)
DRAWS = st.lists(
    st.one_of(st.tuples(st.just("ask"), PROMPTS, st.integers(1, 6), st.integers(0, 4)), DAMAGE), min_size=2, max_size=8
)


@hypothesis_settings(max_examples=EXAMPLES)
@given(DRAWS)
def test_an_engine_samples_what_is_not_kept_once_for_equal_prompts(steps):
    with TemporaryDirectory() as folder:
        kept, prompts_by_hash = Kept(Path(folder)), {text_hash(prompt): prompt for prompt in "abcd"}
        for what, *more in steps:
            if what != "ask":
                kept.damage(kept.paths, what, more[0])
                continue
            prompts, samples, lives = more
            model, known = Model(lives or 1000), kept.known
            engine = KeptEngine(
                Calls(Path(folder), {"model": "m"}, "4/000", KEY, ANSWER), "m", lambda model=model: model, CHUNK
            )
            wanted = {(prompt, number) for prompt in prompts for number in range(samples)}
            try:
                given = engine.generate(prompts, SAMPLING, samples, 0)
                assert {*model.asked} == wanted - known
                assert [[one.text for one in group] for group in given] == [
                    [f"{prompt} {number}" for number in range(samples)] for prompt in prompts
                ]
                assert engine.spent.generated_tokens == len(wanted)
            except Killed:
                assert {*model.asked} < wanted - known
            assert len(model.asked) == len({*model.asked})
            kept.look(
                lambda frame: {(prompts_by_hash[prompt], number) for prompt, number in frame["prompt", "sample"].rows()}
            )


def test_samples_on_both_sides_of_kept_ones_are_sampled_alone(tmp_path):
    def asked(samples: int) -> list[object]:
        model = Model()
        kept = Calls(tmp_path, {"model": "m"}, "4/000", KEY, ANSWER)
        KeptEngine(kept, "m", lambda: model, CHUNK).generate(["a"], SAMPLING, samples, 0)
        return model.asked

    assert [asked(samples) for samples in (2, 4, 6)] == [[("a", n), ("a", n + 1)] for n in (0, 2, 4)]
    for path in tmp_path.rglob("*.parquet"):
        if 2 not in pl.read_parquet(path)["sample"]:
            path.unlink()
    assert asked(6) == [("a", 0), ("a", 1), ("a", 4), ("a", 5)]


def test_a_model_that_changes_meanwhile_keeps_nothing_more(tmp_path):
    facts, model = ["m@1", "float32"], Model()

    def ask(part: pl.DataFrame) -> tuple[pl.DataFrame, Cost]:
        if model.asked:
            facts[1] = "float16"
        return model.ask(part)

    place = calls(tmp_path, unchanged=lambda: check_unchanged(["m@1", "float32"], lambda: facts))
    with pytest.raises(LakeError, match="the files of the model m@1 changed while it was asked; nothing is kept"):
        place.answers(rows(["1", "2", "3"]), ask, 1)
    model.asked.clear()
    calls(tmp_path).answers(rows(["1", "2", "3"]), model.ask, 1)
    assert model.asked == ["2", "3"]


def test_two_processes_in_one_folder_keep_the_same_file_and_a_third_asks_nothing(tmp_path):
    model, (one, other) = Model(), (calls(tmp_path) for _ in range(2))
    first = one.answers(rows(["1"]), lambda part: (other.answers(rows(["1"]), model.ask, 1), model.ask(part))[1], 1)
    assert model.asked == ["1", "1"] and len([*tmp_path.rglob("*.parquet")]) == 1
    assert calls(tmp_path).answers(rows(["1"]), model.ask, 1).equals(first)
    assert model.asked == ["1", "1"]


def test_another_model_or_way_of_asking_shares_no_answers(tmp_path):
    model = Model()
    for facts in ({"model": ["m@1"]}, {"model": ["m@2"]}, {"model": ["m@1"], "layout": "released"}, {"model": ["m@1"]}):
        Calls(tmp_path, facts, "4/000", QUESTION, VALUE).answers(rows(["1"]), model.ask, 1)
    assert model.asked == ["1", "1", "1"]


def test_answers_that_were_copied_from_another_model_are_asked_again(tmp_path):
    model, others = Model(), [Calls(tmp_path, {"model": [name]}, "4/000", QUESTION, VALUE) for name in ("m@1", "m@2")]
    others[0].answers(rows(["1"]), model.ask, 1)
    [file] = tmp_path.rglob("*.parquet")
    others[1].answers(rows(["2"]), model.ask, 1)
    [folder] = {path.parent for path in tmp_path.rglob("*.parquet")} - {file.parent}
    shutil.copy(file, folder / "copy.parquet")
    Calls(tmp_path, {"model": ["m@2"]}, "4/000", QUESTION, VALUE).answers(rows(["1", "2"]), model.ask, 1)
    assert model.asked == ["1", "2", "1"]


def test_a_full_disk_is_one_sentence_and_what_was_kept_is_not_asked_again(tmp_path, full_disk):
    model = Model()
    calls(tmp_path).answers(rows(["1"]), model.ask, 1)
    with full_disk(300), pytest.raises(StorageError, match="make room on its disk and run again"):
        calls(tmp_path).answers(rows(["1", "2"]), model.ask, 1)
    calls(tmp_path).answers(rows(["1", "2"]), model.ask, 1)
    assert model.asked == ["1", "2", "2"]


def test_progress_counts_known_questions_first_and_each_once(tmp_path):
    steps: list[int] = []
    calls(tmp_path).answers(rows(["1", "2"]), Model().ask, 1)
    calls(tmp_path).answers(rows(["1", "1", "2", "3", "4", "5"]), Model().ask, CHUNK, advance=steps.append)
    assert steps == [2, 2, 1]
