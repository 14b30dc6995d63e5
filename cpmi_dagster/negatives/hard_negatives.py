r"""Hard negatives: plausible wrong answers (section 5.1, appendix A).

    gold "18", samples ["20\nBecause", "18.0", "The answer is: $21$.", "20", ""]
      -> HardNegative("20", "model"), HardNegative("21", "model"),
         HardNegative("17", "plus_minus_1"), HardNegative("16", "plus_minus_2")

Model samples come first, in the order sampled; samples equivalent to the gold answer or to an earlier negative are
dropped; edits of the gold answer (`edits`) fill up to M. Of a multiple-choice question the negatives are its other
options. A trajectory may have fewer than M. Equal prompts share their samples. The negatives of a trajectory do not
depend on the others in its batch.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain, islice, zip_longest
from operator import attrgetter
from typing import NamedTuple

import polars as pl

from cpmi_dagster.answers.comparison import BUILT_IN, Comparison
from cpmi_dagster.answers.plain_text import boxed_answer, unwrap
from cpmi_dagster.contracts.chunks import growing_slices
from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.tables import HardNegatives
from cpmi_dagster.files.time_left import Advance, unseen
from cpmi_dagster.generation.engine import Draws, RolloutEngine, SamplingWork, timed_generate
from cpmi_dagster.negatives.edits import rank_edits
from cpmi_dagster.negatives.settings import Negatives
from cpmi_dagster.trajectories.choices import are_one_option, letter_of, letter_saying, read_options, with_letter
from cpmi_dagster.trajectories.templates import render_negative_prompt, render_question, render_target

MODEL, OPTION = "model", "option"
LETTERS = dict.fromkeys("ABCDEFGH", "")
"""Options that are not known."""
ANSWER = attrgetter("answer")
LONGEST_ANSWER, MOST_PROPOSALS = 400, 64
TRAJECTORIES_PER_CALL = 64
_REPEATED_PREFIX = re.compile(r"^(?:the\s+(?:final\s+)?answer\s+is\s*:?\s*)+", re.IGNORECASE)
_REMARK = re.compile(r"(?<=\d)[,;]\s+[a-z]+(?:\s+[a-z]+)+\W*$")
"""Words behind a number: `21365, check your answer`."""
_CALCULATION = re.compile(r"<<|>>|^[-$]*[0-9.,]+\s*=|=\s*$")
"""Calculator annotations, a number followed by `=`, an equation without its right side."""
_PROBABILITY = re.compile(r"\b(?:probabilit(?:y|ies)|chances?|likelihood)\b", re.IGNORECASE)
_BRACKETS = (("([", ")]"), ("{", "}"))


class HardNegative(NamedTuple):
    """A wrong answer and its source: `model`, or the name of the heuristic."""

    answer: str
    source: str


@dataclass(frozen=True)
class NegativesResult:
    """Hard negatives, the ids of trajectories with fewer than M, and the cost of sampling."""

    negatives: pl.DataFrame
    short: list[str]
    cost: Cost


def heuristic_negatives(gold: str, count: int, seed: int, question: str = "") -> list[HardNegative]:
    """At most `count` edits of the gold answer, none equivalent to it or to another.

    Args:
        question: its other options, if it lists some; if it asks for a probability, edits outside [0, 1] come last.
    """
    return choose_negatives(gold, (), Negatives(count=count), seed, question)


def propose(gold: str, seed: int, question: str = "") -> Iterator[HardNegative]:
    """Propose edits of a gold answer, likely ones first, the heuristics in turn, shuffled by the seed.

    Texts are distinct and differ from the gold answer as texts; the caller checks that they differ in value.

    Args:
        gold: has no edits if it is longer than `LONGEST_ANSWER` characters.
        question: if it asks for a probability, edits outside [0, 1] come last.
    """
    answer = gold.strip()
    if len(answer) > LONGEST_ANSWER:
        return
    rng = random.Random(f"{seed}:{gold}".encode("utf-8", "surrogatepass"))
    for tier in rank_edits(answer, bool(_PROBABILITY.search(question))):
        queues = [rng.sample(edits, len(edits)) for edits in rng.sample(tier, len(tier))]
        for turn in zip_longest(*queues):
            yield from (HardNegative(*edit) for edit in turn if edit and edit[0] != gold)


def clean_sample(text: str, max_characters: int) -> str | None:
    """The answer in a sampled continuation of `The answer is: `: its first line, unwrapped.

    Returns:
        None if it is empty, too long, a calculation (`16=<<12+4`), or has an unclosed bracket.
    """
    line = text.lstrip(" \t").split("\n", maxsplit=1)[0]
    line = _REMARK.sub("", _REPEATED_PREFIX.sub("", unwrap(line)))
    answer = unwrap(boxed_answer(line) or line).rstrip("\\ ")  # of a formula that is cut off
    # an interval may mix brackets, as [2, 5)
    is_whole = all(sum(map(answer.count, opening)) == sum(map(answer.count, closing)) for opening, closing in _BRACKETS)
    is_answer = answer and is_whole and not _CALCULATION.search(answer)
    return answer if is_answer and len(answer) <= max_characters else None


def choose_negatives(
    gold: str,
    samples: Sequence[str],
    negatives: Negatives,
    seed: int,
    question: str = "",
    comparison: Comparison = BUILT_IN,
) -> list[HardNegative]:
    """Choose negatives from sampled continuations of the prompt, then from heuristics."""
    cleaned = (clean_sample(sample, negatives.max_answer_characters) for sample in samples)
    sampled = [HardNegative(answer, MODEL) for answer in cleaned if answer]
    if (others := other_options(gold, question, sampled, seed, comparison)) is not None:
        return others[: negatives.count]
    # options that are not known: a number beside a letter would give itself away
    if gold.isupper() and letter_of(gold, LETTERS):
        sampled = [each for each in sampled if letter_of(each.answer, LETTERS)]
    edits = islice(propose(gold, seed, question), MOST_PROPOSALS)
    return list(islice(comparison.distinct(gold, chain(sampled, edits), ANSWER), negatives.count))


def other_options(
    gold: str, question: str, sampled: Sequence[HardNegative], seed: int, comparison: Comparison = BUILT_IN
) -> list[HardNegative] | None:
    """The other options of a multiple-choice question in the form of the gold answer, those that were sampled first.

    An option that says the same as the right one, in letter or value, is left out.

    Returns:
        None if the question lists no options, or the gold answer is none of them.
    """
    options = read_options(question)
    right = letter_of(gold, options)
    if (named := right or letter_saying(options, gold, comparison.same)) is None:
        return None
    text_of = options[named]
    wrong = {
        letter: text
        for letter, text in options.items()
        if letter != named and not (text and text_of and are_one_option(text_of, text, comparison.same))
    }
    said = [letter_of(each.answer, options) or letter_saying(options, each.answer, comparison.same) for each in sampled]
    sources = dict.fromkeys((letter for letter in said if letter in wrong), MODEL)
    letters = random.Random(f"{seed}:{gold}".encode("utf-8", "surrogatepass")).sample(sorted(wrong), len(wrong))
    sources |= {letter: OPTION for letter in letters if letter not in sources}
    if right is None:
        negatives: list[HardNegative] = []
        for letter, source in sources.items():
            text = wrong[letter]
            if text and not any(are_one_option(each.answer, text, comparison.same) for each in negatives):
                negatives.append(HardNegative(text, source))
        return negatives
    return [HardNegative(with_letter(gold, right, letter), source) for letter, source in sources.items()]


def hard_negatives(
    trajectories: pl.DataFrame,
    engine: RolloutEngine | None,
    negatives: Negatives,
    seed: int,
    progress: Advance = unseen,
    comparison: Comparison = BUILT_IN,
) -> NegativesResult:
    """Hard negatives of every trajectory.

    Args:
        trajectories: columns trajectory_id, question, steps, gold_answer.
        engine: the labeler; None for heuristics only.
        progress: called with the number of trajectories just finished, and the characters of prompts read and left.

    Returns:
        Rows of `labels.hard_negatives` in the order of the trajectories.
    """
    rows: list[tuple[str, int, str, str]] = []
    short: list[str] = []
    cost = Cost()
    engine = engine if negatives.samples else None
    prompts = _prompts(trajectories, negatives) if engine else []
    work = SamplingWork({prompt: len(prompt) for prompt in prompts}, negatives.samples, progress)
    for part in growing_slices(trajectories, TRAJECTORIES_PER_CALL):
        samples, spent = _sample(part, engine, negatives, seed, work)
        cost += spent
        problems = part.select("trajectory_id", "question", "gold_answer").iter_rows()
        for (name, question, gold), texts in zip(problems, samples, strict=True):
            chosen = choose_negatives(gold, texts, negatives, trajectory_seed(seed, name), question, comparison)
            rows += [(name, rank, negative.answer, negative.source) for rank, negative in enumerate(chosen, start=1)]
            if len(chosen) < negatives.count:
                short.append(name)
        work.finish(_prompts(part, negatives) if engine else [], part.height)
    frame = pl.DataFrame(rows, schema=HardNegatives.create_empty().schema, orient="row")
    return NegativesResult(frame, short, cost)


def negative_prompt(negatives: Negatives, question: str, steps: Sequence[str], gold_answer: str) -> str:
    """The prompt that the labeler continues with a wrong answer."""
    if negatives.sees == "solution":
        return render_negative_prompt(question, steps, gold_answer)
    return render_question(question) + render_target("")


def trajectory_seed(seed: int, trajectory_id: str) -> int:
    """A seed derived from the seed of the run and the id of the trajectory."""
    return int.from_bytes(blake2b(f"{seed}:{trajectory_id}".encode(), digest_size=6).digest())


def _prompts(trajectories: pl.DataFrame, negatives: Negatives) -> list[str]:
    texts = trajectories.select("question", "steps", "gold_answer").iter_rows()
    return [negative_prompt(negatives, *row) for row in texts]


def _sample(
    trajectories: pl.DataFrame, engine: RolloutEngine | None, negatives: Negatives, seed: int, work: SamplingWork
) -> tuple[list[list[str]], Cost]:
    if engine is None:
        return [[] for _ in range(trajectories.height)], Cost()
    draws = Draws(negatives.sampling, negatives.samples, seed, stop="line")
    generations, cost = timed_generate(engine, _prompts(trajectories, negatives), draws, work)
    return [[generation.text for generation in group] for group in generations], cost
