r"""Multiple-choice questions: how their options are shown, and how an answer to one is graded.

Two kinds occur. Lettered options are listed under the question and the gold answer is a letter:

    Which is prime?
    (A) 4
    (B) 7                      gold B; `B`, `(b)`, `B. 7`, `option B is correct`, `\text{B}` and `7` are right

Worded options are a closed set of verdicts and the gold answer is one of them:

    … Answer with True, False or Uncertain.      gold Uncertain; `Unknown` and `It cannot be determined` are right

An answer that names two options, or says less than a verdict (`not entailed` may be false or open), means none.
"""

import re
import string
from collections.abc import Sequence

from cpmi_dagster.answers.verdicts import is_equivalent

WORDING = re.compile(r"\\(?:textbf|text|mathrm|mathbf|boxed)\s*|[$*{}\\]")
LETTER = re.compile(
    r"(?:(?:the\s+)?(?:correct\s+)?(?:option|choice|answer)(?:\s+is)?\s*:?\s*)?"
    r"(?:[(\[]([A-Za-z])[)\]]|([A-Za-z])(?:\)|[.:,;](?=\s|$)|\s[-–—]\s|$|\s+(?=\(|because\b|since\b|is\b)))",
    re.IGNORECASE,
)
ANOTHER_LETTER = re.compile(r"\W*(?:and|or|&|/)?\W*(?:option\s+)?(?:[(\[]([A-Z])[)\]]|([A-Z])\W*$)")
NEXT_SENTENCE = re.compile(r"\.\s+(?=[A-Z])")
MEANINGS = {
    "holds": "true, yes, correct, entailment, entailed, entails, follows",
    "fails": "false, no, incorrect, not true, untrue, contradiction, contradicted, contradicts, contradictory",
    "open": "uncertain, unknown, neutral, neither, undetermined, undecided, unclear, indeterminate, inconclusive, "
    "not certain, not enough information, insufficient information, neither true nor false, neither entailed nor "
    "contradicted, can not be determined, cannot be determined, can t be determined, cannot be known, not determined",
    "both": "self contradiction, self contradictory, selfcontradiction, paradox, both true and false, "
    "both entailed and contradicted",
}
VERDICTS = {wording: meaning for meaning, wordings in MEANINGS.items() for wording in wordings.split(", ")}
LEAD_IN = re.compile(
    r"(?:(?:therefore|so|thus|hence|the|this|that|it|an?|conclusion|statement|hypothesis|claim|relation|answer|verdict|"
    r"is|are|holds|definitely|clearly|logically)\s+)+"
)
REASON = re.compile(r"[,;:.(]|\s(?:because|since|given|as)\s", re.IGNORECASE)


def grade_answer(gold: str, answer: str | None, choices: Sequence[str] | None = None) -> bool:
    """Whether an answer is right: the same option if there are options, else mathematically equivalent.

    Args:
        gold: gold answer; with lettered options their letter.
        answer: extracted final answer; None is wrong.
        choices: the options, or None for an open question.
    """
    if answer is None:
        return False
    if not choices:
        return is_equivalent(gold, answer)
    if gold not in list(string.ascii_uppercase[: len(choices)]):
        return _verdict(gold) == _verdict(answer)
    # an option is meant by its whole text, its letter, or its words alone
    plain = WORDING.sub("", answer).strip()
    letters, by_letter = string.ascii_uppercase[: len(choices)], None
    if named := LETTER.match(plain):
        number, rest = letters.find((named[1] or named[2]).upper()), plain[named.end() :]
        other = ANOTHER_LETTER.match(rest)
        two = other is not None and letters.find(other[1] or other[2]) not in (-1, number)
        if number >= 0 and (not two or _says(rest, choices[number])):
            by_letter = number
    else:
        beginning, _, rest = plain.partition(" ")
        number = letters.find(beginning) if len(beginning) == 1 else -1
        if number >= 0 and _says(rest, choices[number]):
            by_letter = number
    fits = (
        _only([_says(plain, choice) for choice in choices]) if len(plain) > 1 else None,
        by_letter,
        _only([_words(choice) == _words(plain) for choice in choices]),
    )
    meant = next((number for number in fits if number is not None), None)
    return meant == string.ascii_uppercase.index(gold)


def _says(text: str, choice: str) -> bool:
    """Whether a text, maybe in brackets, is an option's, or its first sentence, to which extracted answers are cut."""
    wording, bare = (_text(choice), _text(NEXT_SENTENCE.split(choice, 1)[0])), _text(text)
    return bare in wording or (bare.startswith("(") and bare.endswith(")") and _text(bare[1:-1]) in wording)


def _only(fits: Sequence[bool]) -> int | None:
    """Position of the only True; None if there are several or none."""
    return fits.index(True) if sum(fits) == 1 else None


def _verdict(answer: str) -> str:
    """The meaning of a verdict (`holds`, `fails`, `open`, `both`), or the text's words if it is no verdict."""
    plain = WORDING.sub("", answer).strip()
    clauses = (plain, REASON.split(plain, 1)[0])
    phrases = [phrase for clause in clauses for phrase in (_words(clause), LEAD_IN.sub("", _words(clause), 1))]
    return next((VERDICTS[phrase] for phrase in phrases if phrase in VERDICTS), phrases[0])


def _text(text: str) -> str:
    """The text without blanks, capitals and a final stop; signs stay."""
    return "".join(WORDING.sub("", text).lower().split()).rstrip(".,;")


def _words(text: str) -> str:
    """The words alone, without signs; nothing if there are none."""
    return re.sub(r"[\W_]+", " ", WORDING.sub("", text).lower()).strip()
