"""Whether the last label of a judge's head means that a step is right, by the names in its config.json.

{"0": "-", "1": "+"}              yes
{"0": "correct", "1": "error"}    no: label 0 does
{"0": "error", "1": "no_error"}   yes: `no` turns a word round
{"0": "LABEL_0", "1": "wrong"}    no: one known name decides
{"0": "LABEL_0", "1": "LABEL_1"}  the names do not say: the last label is taken, with a warning
"""

import logging
import re
from collections.abc import Mapping
from typing import Any

from cpmi_dagster.errors import ModelError
from cpmi_dagster.files.text import cut, printable

RIGHT, WRONG = (
    frozenset(words.split())
    for words in (
        "+ ✓ ✔ ✅ right correct good positive true yes valid accept accepted pass passed ok chosen accurate 正确",
        "- − ✗ ✘ ❌ wrong incorrect bad negative false invalid reject rejected fail failed inaccurate error errors err "
        "erroneous mistake mistakes mistaken flawed faulty 错误 不正确",
    )
)
NEGATIONS = frozenset(("no", "not", "non", "without", "free"))
WORD = re.compile(r"[^\W\d_]+|[✓✔✅✗✘❌]|(?<![^\W_])[-+−](?![^\W\d_])")
"""A run of letters or a sign; the hyphen of `non-correct` is none."""
CAMEL_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])")
logger = logging.getLogger(__name__)


def last_label_sign(config: Mapping[str, Any], outputs: int, model: str, is_fixed: bool) -> int:
    """1 if the last label means that a step is right, -1 if it means that it is wrong.

    Args:
        config: the judge's config.json, of which `id2label` and `label2id` are read.
        outputs: of its head, one or two; one gives the probability of the last label that is named.
        model: its name, for the warning.
        is_fixed: its publisher says that the last label means right, so that names that say nothing need no warning.

    Raises:
        ModelError: the names contradict each other or the head.
    """
    names = [(str(number), str(name)) for number, name in (config.get("id2label") or {}).items()]
    names += [(str(number), str(name)) for name, number in (config.get("label2id") or {}).items()]
    meanings = {(number, meaning) for number, name in names if (meaning := _meaning(name))}
    last = "1" if outputs == 2 or "1" in dict(names) else "0"
    signs = {meaning if number == last else -meaning for number, meaning in meanings}
    is_turned_value = outputs == 1 and last == "1" and signs == {-1}
    said = printable(cut(", ".join(f"{number} `{name}`" for number, name in dict.fromkeys(names)), 200)) or "no names"
    if len(signs) > 1 or is_turned_value or not {number for number, _ in meanings} <= {"0", "1"}:
        raise ModelError(
            f"the labels of its config.json ({said}) do not say which output means that a step is right, and "
            "`id2label` needs one name of each kind"
        )
    if not signs and outputs == 2 and not is_fixed:
        logger.warning(
            "the labels of %s (%s) do not say which means that a step is right: label 1 is taken as right; if that is "
            "label 0, name both in `id2label` of its config.json",
            model,
            said,
        )
    return signs.pop() if signs else 1


def _meaning(name: str) -> int:
    """1 if a label's name means right, -1 if it means wrong, 0 if neither or both."""
    words = set(WORD.findall(CAMEL_CASE.sub(" ", name).casefold()))
    if words == {"no"}:
        return -1
    meaning = bool(words & RIGHT) - bool(words & WRONG)
    return -meaning if words & NEGATIONS else meaning
