r"""Gold answers of the real sets by kind; as a script, 50 of each kind with their heuristic negatives.

python tests/mistakes/real_golds.py > negatives_by_kind.txt

    ## fraction: 972 answers
    \frac{7}{12}  ->  \frac{12}{7} (fraction_swap) | \frac{7}{11} (fraction_parts) | …
"""

import gzip
import json
import random
import re
import sys
from collections import defaultdict
from pathlib import Path

from cpmi_dagster.alignment.references import read_references
from cpmi_dagster.negatives.hard_negatives import heuristic_negatives

SHARED_DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
SHOWN = 50
WANTED = 4
SEED = 0
KINDS = {
    "matrix": r"matrix\}",
    "base": r"^-?(\\text\{)?[0-9A-F]+\}?_\{?\d+\}?\.?$",
    "percent": r"%",
    "degrees": r"\\circ",
    "money": r"\$",
    "letters": r"^[(\\text{]*[(, A-Z]*[)}]*[.,]?$",
    "words": r"^\\(text|mbox)\{[^{}0-9]*\}$|^[A-Za-z]{2,}$",
    "unit": r"\d.*\\(text|mbox|textnormal)\{(?! (or|and))",
    "integer": r"^-?\d+$",
    "decimal": r"^-?\d*\.\d+$",
    "thousands": r"^-?\d{1,3}((,\\!|\{,\}|,)\d{3})+$",
    "inequality": r"\\(le|ge)q?(?![a-z])|[<>]",
    "interval": r"infty|\\cup|^(\\left *)?\[|\]$",
    "equation": r"=",
    "set": r"^\\\{",
    "tuple": r"^(\\left *)?\(.*,.*\)$",
    "plus_minus": r"\\pm",
    "ratio_or_time": r"\d *(\\!)?:",
    "list": r",|\\text\{ *(or|and)",
    "function": r"\\(sin|cos|tan|cot|sec|csc|log|ln)",
    "complex": r"(?<![A-Za-z\\])i(?![A-Za-z])",
    "mixed": r"^-?\d+\\[dt]?frac(\{\d+\}|\d)(\{\d+\}|\d)$",
    "fraction": r"^-?\\[dtc]?frac *(\{-?\d+\}|\d)(\{-?\d+\}|\d)$|^-?\d+/\d+$",
    "pi": r"\\pi",
    "root": r"\\sqrt",
    "power": r"^[^a-z]*\^[^a-z]*$",
    "polynomial": r"[A-Za-z]",
}


def kind_of(answer: str) -> str:
    """The first kind whose pattern is found in an answer."""
    return next((kind for kind, pattern in KINDS.items() if re.search(pattern, answer)), "other")


def real_golds() -> list[str]:
    """The gold answers of GSM8K train and MATH train, in order; two of MATH are empty."""
    golds: list[str] = []
    for source in ("gsm8k", "math"):
        with gzip.open(SHARED_DATA / source / "train.jsonl.gz", "rt", encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        golds += read_references(rows, source, "train")["answer"].to_list()
    return golds


def golds_by_kind(golds: list[str]) -> dict[str, list[str]]:
    """Answers under the names of their kinds, in order."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for gold in golds:
        kinds[kind_of(gold)].append(gold)
    return kinds


def sample_of_each_kind(golds: list[str], count: int) -> dict[str, list[str]]:
    """Up to `count` different answers of each kind, seeded."""
    rng = random.Random(SEED)
    distinct = {kind: sorted(set(answers)) for kind, answers in golds_by_kind(golds).items()}
    return {kind: rng.sample(answers, min(count, len(answers))) for kind, answers in distinct.items()}


def main() -> None:
    golds = [gold for gold in real_golds() if gold]
    kinds = golds_by_kind(golds)
    for kind, answers in sample_of_each_kind(golds, SHOWN).items():
        sys.stdout.write(f"## {kind}: {len(kinds[kind])} answers, {len(set(kinds[kind]))} different\n")
        for gold in answers:
            negatives = heuristic_negatives(gold, WANTED, SEED)
            shown = " | ".join(f"{negative.answer} ({negative.source})" for negative in negatives)
            sys.stdout.write(f"{gold}  ->  {shown}\n".replace("\n", " ").rstrip() + "\n")


if __name__ == "__main__":
    main()
