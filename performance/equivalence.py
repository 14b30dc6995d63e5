r"""Answer equivalence on real golds: pairs a second, the share decided exactly, the slowest pair.

Workload: every gold answer of GSM8K and MATH, as often as it occurs, beside four ways to write it again (as it would
stand in a solution) and two other golds of the same file. Caches start empty; seconds are the processor's. What is left
undecided goes to math-verify afterwards, and so do the pairs made to need it, one at a time.

    python performance/equivalence.py ../shared/data/gsm8k/train.jsonl.gz ../shared/data/math/train.jsonl.gz
"""

import argparse
import gzip
import json
import logging
import random
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from cpmi_dagster.answers.equivalence.forms import read_form
from cpmi_dagster.answers.equivalence.plain_text import plain_text
from cpmi_dagster.answers.extraction import extract_answer
from cpmi_dagster.answers.verdicts import decide, is_equivalent

OTHERS = 2
ALGEBRA = [
    (r"\sum_{k=1}^{3} k", "6"),
    (r"\sqrt{x^2}", "x"),
    (r"\int_0^1 x\,dx", r"\frac{1}{2}"),
    (r"\sum_{k=1}^{n} k^2", r"\frac{n(n+1)(2n+1)}{6}"),
    (r"\lim_{x \to 0} \frac{\sin x}{x}", "1"),
    (r"\sum_{k=1}^{100000} \frac{1}{k}", "12.09"),
    (r"\int_0^{\infty} e^{-x^2} \sin(x^3)\,dx", "1"),
    (r"\prod_{k=1}^{3000} (x+k)", "1"),
]
Pair = tuple[str, str]
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Timing:
    """One pass over pairs."""

    seconds: float
    verdicts: Counter[bool | None]
    slowest: tuple[float, Pair]
    undecided: list[Pair]


def read_golds(path: Path) -> list[str]:
    """The gold answers of a file of problems, empty ones left out."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]
    answers = (extract_answer(row.get("solution") or row["answer"]) for row in rows)
    return [answer for answer in answers if answer]


def workload(golds: list[str], seed: int = 0) -> list[Pair]:
    """Each gold beside itself written again, and beside other golds."""
    generator = random.Random(seed)
    pairs: list[Pair] = []
    for gold in golds:
        pairs += [(gold, variant) for variant in variants(gold)]
        pairs += [(gold, generator.choice(golds)) for _ in range(OTHERS)]
    return pairs


def variants(gold: str) -> list[str]:
    """Four ways to write an answer that mean the same."""
    bracketed = gold.replace("(", r"\left( ").replace(")", r" \right)").replace("+", " + ")
    return [f"${gold}$", f"{gold}.", gold.replace(r"\frac", r"\dfrac"), bracketed]


def measure_exact(pairs: list[Pair]) -> Timing:
    """Judge pairs on the exact path, from empty caches."""
    for cached in (plain_text, read_form):
        cached.cache_clear()
    verdicts: list[bool | None] = []
    slowest = (0.0, ("", ""))
    began = last = time.process_time()
    for pair in pairs:
        verdicts.append(decide(*pair))
        now = time.process_time()
        slowest, last = max(slowest, (now - last, pair)), now
    undecided = [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict is None]
    return Timing(last - began, Counter(verdicts), slowest, undecided)


def reading_rate(texts: list[str]) -> float:
    """Texts read a second, none of them seen before: what a pair costs where nothing is shared is two of these."""
    for cached in (plain_text, read_form):
        cached.cache_clear()
    began = time.process_time()
    for text in texts:
        read_form(plain_text(text))
    return len(texts) / (time.process_time() - began)


def measure_algebra(pairs: list[Pair]) -> tuple[float, Pair]:
    """The slowest of pairs that go to math-verify, its workers started."""
    is_equivalent(*ALGEBRA[0])
    slowest = (0.0, ("", ""))
    for pair in dict.fromkeys(pairs):
        began = time.perf_counter()
        is_equivalent(*pair)
        slowest = max(slowest, (time.perf_counter() - began, pair))
    return slowest


def main() -> None:
    """Print the figures, a file at a time and for all of them."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", type=Path, nargs="+", help="JSON Lines of GSM8K or MATH, gzip or not")
    files = {path: workload(read_golds(path)) for path in parser.parse_args().problems}
    undecided: list[Pair] = []
    everything = [pair for pairs in files.values() for pair in pairs]
    for name, pairs in [*files.items(), ("all", everything)]:
        timing = measure_exact(pairs)
        undecided += timing.undecided
        rate, share = len(pairs) / timing.seconds, 1 - len(timing.undecided) / len(pairs)
        logger.info("%s: %d pairs, %d texts", name, len(pairs), len({text for pair in pairs for text in pair}))
        logger.info("  %.0f pairs/s, %.3f %% decided, slowest %.1f ms", rate, 100 * share, 1000 * timing.slowest[0])
        logger.info("  equal %d, different %d", timing.verdicts[True], timing.verdicts[False])
    logger.info("texts read for the first time: %.0f/s", reading_rate(sorted({gold for gold, _ in everything})))
    for name, pairs in (("undecided", undecided), ("made to need algebra", ALGEBRA[1:])):
        seconds, pair = measure_algebra(pairs)
        logger.info("math-verify, %s: slowest of %d: %.2f s %s", name, len(set(pairs)), seconds, pair)


if __name__ == "__main__":
    main()
