"""The cache of model answers, kept for ever by question: a model is asked once.

    asked       a row per question          prompt 7f3a…  answer 19c2…          hashes of the texts
    kept        <home>/lake/labels/answer_logprobs/.calls/5f0c…/4/003/8d01….parquet
    answered    the same rows               logprob_sum -0.41  token_count 6    with its share of tokens and seconds

`5f0c…` is the hash of the model and how it is asked (precision, layout, sampling), never of how much is asked; `4/003`
is the question's shard of four. Kept answers are read, the rest is asked chunk by chunk, and each chunk is written as
soon as it is answered. So a killed run goes on after its last chunk; more templates, negatives or rollouts ask for what
is new; a changed row asks for itself; going back asks for nothing.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, fields
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import polars as pl

from cpmi_dagster.contracts.chunks import growing_slices
from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.errors import LakeError, first_line
from cpmi_dagster.files.time_left import Advance, unseen
from cpmi_dagster.files.whole_files import write_whole
from cpmi_dagster.resources.lake.lake import CALLS
from cpmi_dagster.resources.lake.parquet import hash_of, is_intact, write_sealed

FOLDER_CHARACTERS = 16
FACTS_HASH = "asked"
"""The name of the hash of the facts among a file's metadata."""
COST = {each.name: pl.Float64() for each in fields(Cost)}
"""Columns of an answer's share of its chunk's tokens and seconds."""
Ask = Callable[[pl.DataFrame, Callable[[float], None]], tuple[pl.DataFrame, Cost]]
"""Takes rows of different questions, and a callback of the share of them that is answered, 0 once the model is loaded;
gives columns of `key` and `answer`, and their cost together."""
LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class AnswerCache:
    """The answers of one model to the questions of one table.

    Attributes:
        folder: of the table in the lake.
        facts: the model, and how it is asked.
        place: subfolder: `4/003` for shard 003 of 4, `all/gsm8k` for a question set, or `all/all`.
        key: columns of a question, with types.
        answer: columns of an answer, with types.
        unchanged: called before answers are kept; raises an error if the model has changed.
        count: called with the numbers of rows, or values of `by`, that are kept and that are asked for.
    """

    folder: Path
    facts: Mapping[str, Any]
    place: str
    key: Mapping[str, Any]
    answer: Mapping[str, Any]
    unchanged: Callable[[], None] = lambda: None
    count: Callable[[int, int], None] = lambda kept, asked: None
    _known: list[pl.DataFrame] = field(default_factory=list, init=False, repr=False)

    def answers(
        self,
        asked: pl.DataFrame,
        ask: Ask,
        size: int,
        by: str | None = None,
        weight: str | None = None,
        advance: Advance = unseen,
        growing: bool = False,
        work: str | None = None,
    ) -> pl.DataFrame:
        """The answer to every row, kept or from the model.

        Args:
            asked: columns of `key`, and whatever `ask` needs.
            ask: asks the model; see `Ask`.
            size: rows per chunk, or values of `by`.
            by: column whose equal values stay in a chunk, such as a trajectory, whose rows share a token tree.
            weight: column of the answer that divides the cost of a chunk; by default equal parts.
            advance: called with the number of rows, or values of `by`, just answered, kept ones first; and with the
                work that the model has done since, also within a chunk, and has left.
            growing: the first chunks are smaller (see `growing_slices`).
            work: column of `asked` with the work of each row, in any unit; by default each is 1.

        Returns:
            `asked` with the columns of the answer and of `COST`, in its order, without rows that `ask` left out.
        """
        names = list(self.key)
        asked = asked.with_columns(pl.col(name).cast(kind) for name, kind in self.key.items())
        missing = self._missing(asked)
        if missing.height:
            self._find_elsewhere(missing)
            missing = self._missing(asked)
        counted = [by] if by else names
        left, total = missing.select(counted).n_unique(), asked.select(counted).n_unique()
        self.count(total - left, total)
        missing = missing.unique(names, keep="first", maintain_order=True)
        to_do = _Work(_amount(missing, work), advance)
        advance(total - left, left=to_do.left)
        for part in _chunks(missing, size, by, growing):
            with to_do.of(_amount(part, work)) as report:
                given, cost = ask(part, report)
            self._keep(given, cost, weight)
            done = part.select(counted).n_unique()
            advance(min(done, left), 0, to_do.left)
            left -= done
        return asked.join(self._all, on=names, how="inner", maintain_order="left")

    def spent(self, answered: pl.DataFrame) -> Cost:
        """The cost of the answers of some rows, each question once."""
        sums = answered.unique(list(self.key)).select(pl.col(name).sum() for name in COST).row(0)
        wall, read, generated, processors = sums
        return Cost(wall, round(read), round(generated), processors)

    @property
    def _all(self) -> pl.DataFrame:
        """All answers read or given so far."""
        if not self._known:
            self._known.append(pl.DataFrame(schema={**self.key, **self.answer, **COST}))
            for file in sorted((self._home / self.place).glob("*.parquet")):
                self._known.extend(self._read(file))
        if len(self._known) > 1:
            self._known[:] = [pl.concat(self._known).unique(list(self.key), keep="first", maintain_order=True)]
        return self._known[0]

    def _missing(self, asked: pl.DataFrame) -> pl.DataFrame:
        return asked.join(self._all, on=list(self.key), how="anti", maintain_order="left")

    def _find_elsewhere(self, missing: pl.DataFrame) -> None:
        """Read answers that were kept under another number of shards."""
        for file, questions in self._elsewhere.items():
            if missing.join(questions, on=list(self.key)).height:
                self._known.extend(frame for frame in self._read(file) if frame.height)

    @cached_property
    def _elsewhere(self) -> dict[Path, pl.DataFrame]:
        """The questions by file, of files kept under other numbers of shards."""
        here = self._home / self.place.partition("/")[0]
        files = [file for file in sorted(self._home.glob("*/*/*.parquet")) if not file.is_relative_to(here)]
        return {file: frame.select(list(self.key)) for file in files for frame in self._read(file)}

    @cached_property
    def _home(self) -> Path:
        return self.folder / CALLS / self._facts_hash[:FOLDER_CHARACTERS]

    @cached_property
    def _facts_hash(self) -> str:
        return hash_of(self.facts)

    def _read(self, file: Path) -> Iterator[pl.DataFrame]:
        """The answers of a file; none if it is damaged or of other facts: they are asked again."""
        kinds = {**self.key, **self.answer, **COST}
        try:
            if is_intact(file) and pl.read_parquet_metadata(file).get(FACTS_HASH) == self._facts_hash:
                yield pl.read_parquet(file, columns=list(kinds)).cast(kinds)  # pyright: ignore[reportArgumentType]
                return
        except (OSError, pl.exceptions.PolarsError) as error:
            LOG.warning("%s cannot be read (%s); its questions are asked again", file, first_line(error))
            return
        LOG.warning("%s is damaged, or was copied from elsewhere; its questions are asked again", file)

    def _keep(self, given: pl.DataFrame, cost: Cost, weight: str | None) -> None:
        """Keep the answers to a chunk, on disk and here.

        Raises:
            CpmiError: the model has changed, or the disk is full.
        """
        share = pl.lit(1.0) / pl.len()
        if weight and given[weight].sum() > 0:
            share = pl.col(weight) / pl.col(weight).sum()
        amounts = zip(COST, astuple(cost), strict=True)
        kinds = {**self.key, **self.answer, **COST}
        kept = given.with_columns((share * amount).alias(name) for name, amount in amounts)
        kept = kept.select(list(kinds)).cast(kinds)  # pyright: ignore[reportArgumentType]
        self.unchanged()
        if not (self._home / "asked.json").is_file():
            write_whole(self._home / "asked.json", json.dumps(self.facts, indent=1, default=str))
        # named by its questions: a second process that asked the same writes the same file
        name = sha256(kept.select(list(self.key)).write_ndjson().encode()).hexdigest()[:FOLDER_CHARACTERS]
        write_sealed(kept, self._home / self.place / f"{name}.parquet", {FACTS_HASH: self._facts_hash})
        self._known.append(kept)


def _amount(rows: pl.DataFrame, work: str | None) -> float:
    return float(rows[work].sum() if work else rows.height)


@dataclass
class _Work:
    """The work that is left, which is reported as it becomes less."""

    left: float
    advance: Advance

    @contextmanager
    def of(self, chunk: float) -> Iterator[Callable[[float], None]]:
        """Yields a callback of the share of a chunk that is done; after the block, all of it is."""
        told = 0.0

        def report(share: float) -> None:
            nonlocal told
            done = max(chunk * min(share, 1.0) - told, 0.0)
            told, self.left = told + done, self.left - done
            self.advance(0, done, self.left)

        yield report
        report(1.0)


def _chunks(rows: pl.DataFrame, size: int, by: str | None, growing: bool) -> Iterator[pl.DataFrame]:
    wholes = rows if by is None else rows.select(by).unique(maintain_order=True)
    for part in growing_slices(wholes, size) if growing else wholes.iter_slices(size):
        yield part if by is None else rows.join(part, on=by, how="semi", maintain_order="left")


def shares_of(total: int, report: Callable[[float], None]) -> Callable[[int], None]:
    """A callback of the number of items just finished, which reports the share of all that is."""
    finished = 0

    def advance(count: int) -> None:
        nonlocal finished
        finished += count
        report(finished / max(total, 1))

    return advance


def check_unchanged(asked_of: Sequence[Any], now: Callable[[], Sequence[Any]]) -> None:
    """Refuse answers of a model whose files have changed since its facts were taken.

    Raises:
        LakeError: the facts differ now.
    """
    if list(asked_of) != list(now()):
        raise LakeError(f"the files of the model {asked_of[0]} changed while it was asked; nothing is kept, run again")
