"""Contestants side by side on one workload: each runs as often as asked, in turn, and its best time counts.

scorer          tokens   padding   seconds       per 1,000   x tree   largest difference
tree            15,880       193   8.2, 8.1           0.51     1.00              4.3e-06
released       298,012     9,121   155.0, 154.2       0.52    19.0               5.1e-06
"""

import io
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl
from rich.console import Console
from rich.table import Table
from scoring_cached import cached_prefix
from scoring_contestants import RELEASED_BATCH, Harness, Logprobs, released, tree
from scoring_meter import ForwardMeter
from scoring_sequences import distinct_tokens, pieces_of, requests_of
from scoring_workload import negatives_of

from cpmi_dagster.contracts.contexts import Conditioning
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.scoring.readers.choice import reader_of
from cpmi_dagster.scoring.settings import Scoring

NEGATIVES, TEMPLATES = 4, 4
HARNESS_BATCHES = (4, RELEASED_BATCH)
CACHED_CONTEXTS = (1, 4)
QUICK_SECONDS, QUICK_REPEATS = 20.0, 2
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
logger = logging.getLogger(__name__)


class Workload:
    """Trajectories with negatives and conditionings, for a model: what contestants run on."""

    def __init__(
        self, model: LoadedModel, trajectories: pl.DataFrame, conditionings: tuple[Conditioning, ...], seed: int
    ) -> None:
        # how the model reads trees is found out once a model, before anything is timed
        reader_of(model)
        self.model = model
        self.trajectories = trajectories
        self.negatives = negatives_of(trajectories, NEGATIVES, seed)
        self.scoring = Scoring(templates=TEMPLATES, conditionings=conditionings)
        self.pieces = pieces_of(trajectories, self.negatives, model.tokenizer, TEMPLATES, conditionings)
        self.requests = requests_of(self.pieces)
        self.distinct = distinct_tokens(self.requests)

    def tree(self) -> Logprobs:
        """Ours."""
        return tree(self.model, self.trajectories, self.negatives, self.scoring)

    def reference(self) -> Logprobs:
        """The reference scorer on the first trajectory."""
        scoring = self.scoring.model_copy(update={"scorer": "reference"})
        return tree(self.model, self.trajectories.head(1), self.negatives, scoring)

    def contestants(self, *names: str) -> dict[str, Callable[[], Logprobs]]:
        """Runs by name; `harness` and `cached prefix` once for each of their batch sizes."""
        runs = {"tree": self.tree, "released": lambda: released(self.model, self.requests)}
        for batch in HARNESS_BATCHES:
            harness = Harness(self.model, batch)
            runs[f"harness, batch {batch}"] = lambda harness=harness: harness(self.requests)
        for contexts in CACHED_CONTEXTS:
            runs[f"cached prefix, {contexts} at once"] = lambda contexts=contexts: cached_prefix(
                self.model, self.pieces, contexts
            )
        return {name: run for name, run in runs.items() if name.startswith(names)}

    def unpadded(self) -> dict[str, int]:
        """Tokens each contestant would compute without padding."""
        whole = {request.context + request.target[:-1] for request in self.requests}
        sequences = sum(len(request.context) + len(request.target) for request in self.requests)
        harness = {f"harness, batch {batch}": sum(map(len, whole)) for batch in HARNESS_BATCHES}
        return {"tree": self.distinct, "released": sequences, **harness}


@dataclass
class Measured:
    """A contestant's runs: seconds of each, what went through the model in the last, and its values if it has any."""

    meter: ForwardMeter
    seconds: list[float] = field(default_factory=list)
    forward_share: float = 0.0
    logprobs: Logprobs | None = None

    @property
    def best(self) -> float:
        """Seconds of the fastest run."""
        return min(self.seconds)


def compare(
    model: LoadedModel, contestants: Mapping[str, Callable[[], Logprobs]], repeats: int, clock: str
) -> dict[str, Measured]:
    """Run every contestant in turn, the whole round as often as asked, and quick ones a few times more.

    Args:
        model: the model they share.
        contestants: name and run.
        repeats: rounds.
        clock: key of `CLOCKS`; processor seconds are steadier on a busy machine, with one thread.
    """
    now = CLOCKS[clock]
    measured: dict[str, Measured] = {}
    for turn in range(repeats + QUICK_REPEATS):
        for name, run in contestants.items():
            if turn >= repeats and measured[name].best > QUICK_SECONDS:
                continue
            with ForwardMeter(model.model) as meter:
                wall, began = time.perf_counter(), now()
                logprobs = run()
                seconds, wall = now() - began, time.perf_counter() - wall
            one = measured.setdefault(name, Measured(meter))
            one.meter, one.logprobs = meter, logprobs
            one.forward_share = max(one.forward_share, meter.seconds / wall)
            one.seconds.append(seconds)
            logger.info("  %-24s run %d: %8.2f s, %9d tokens", name, turn + 1, seconds, meter.tokens)
    return measured


def largest_difference(one: Logprobs, other: Logprobs) -> float:
    """Largest difference of two values with the same key, nats; over the keys of `other`."""
    return max(abs(one[key] - value) for key, value in other.items())


def comparison_table(
    title: str, measured: Mapping[str, Measured], reference: Logprobs, texts: Mapping[str, int], base: str = "tree"
) -> str:
    """A table of contestants as text.

    Args:
        title: stands above it.
        measured: of `compare`.
        reference: values of the reference scorer, for a part of the workload.
        texts: tokens each contestant would compute without padding.
        base: contestant that the others' seconds are divided by.
    """
    table = Table(title=title, title_justify="left")
    headings = ("scorer", "tokens", "padding", "seconds", "s / 1,000 tokens", f"seconds / {base}", "largest difference")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "scorer" else "right")
    for name, one in measured.items():
        tokens = one.meter.tokens
        table.add_row(
            name,
            f"{tokens:,}",
            f"{tokens - texts[name]:,}" if name in texts else "",
            ", ".join(f"{seconds:.2f}" for seconds in one.seconds),
            f"{1000 * one.best / tokens:.3f}",
            f"{one.best / measured[base].best:.2f}",
            f"{largest_difference(one.logprobs, reference):.1e} nats" if one.logprobs else "",
        )
    return as_text(table)


def plain_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts, the first column on the left."""
    table = Table(title=title, title_justify="left")
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if place else "left")
    for row in rows:
        table.add_row(*row)
    return as_text(table)


def as_text(table: Table) -> str:
    """The table as it would stand in a wide terminal."""
    stream = io.StringIO()
    Console(file=stream, width=140).print(table)
    return stream.getvalue()
