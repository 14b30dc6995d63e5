r"""What kinds of answers there are.

"5225 \text{ cubic inches}"  -> Quantity({1: 5225}, unit="cubic inch")
"73\%"                       -> Quantity({1: 73}, percent=True)
"x = -2"                     -> Quantity({1: -2}, name="x")
"2x + y = 7"                 -> Equation(2x + y - 7)
"1 < x \le 4"                -> Relation({x - 1 > 0, 4 - x ≥ 0})
"(3, \frac{\pi}{2})"         -> Collection("()", [3, π/2])
"1, -2"                      -> Collection("", [1, -2])            "\{1, -2\}" -> Collection("{}", [1, -2])
"\begin{pmatrix} 1 & 0 \\ 0 & 1 \end{pmatrix}" -> Collection("matrix", [row, row])
"(-\infty, 2) \cup [3, 4)"   -> Collection("cup", [interval, interval])
"\text{Sunday}", "True"      -> Words("sunday"), Words("yes")
"(B) 12", "B. Paris"         -> Choice("b", Quantity({1: 12})), Choice("b", Words("paris"))
"""

from dataclasses import dataclass

from cpmi_dagster.answers.equivalence.polynomials import Polynomial

LIST, SET, TUPLE, MATRIX, UNION, INTERSECTION = "", "{}", "()", "matrix", "cup", "cap"


@dataclass(frozen=True)
class Quantity:
    """A number or an expression, perhaps with a unit or a percent sign, or assigned to a name.

    `text` is what the value was read from; `decimals` counts its digits after the point.
    """

    value: Polynomial
    unit: str = ""
    percent: bool = False
    decimals: int = 0
    text: str = ""
    name: str = ""


@dataclass(frozen=True)
class Words:
    """Short text, in lower case."""

    text: str


@dataclass(frozen=True)
class Choice:
    """A choice's letter, in lower case, with what the choice says."""

    letter: str
    answer: "Form"


@dataclass(frozen=True)
class InBase:
    """Digits with a base written below, e.g. `422_8`."""

    digits: str
    base: str


@dataclass(frozen=True)
class Equation:
    """An equation that is not an assignment, as left side minus right side."""

    difference: Polynomial


@dataclass(frozen=True)
class Comparison:
    """A difference that is positive (`>`), not negative (`>=`) or not zero (`!=`), its leading coefficient ±1."""

    difference: Polynomial
    sign: str


@dataclass(frozen=True)
class Relation:
    """Comparisons that hold at once: an inequality or a chain of them."""

    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True)
class Collection:
    """Several answers in one. `brackets` is `""` for a bare list, `"{}"` for a set, else its kind."""

    brackets: str
    items: tuple["Form", ...]


Form = Quantity | Words | Choice | InBase | Equation | Relation | Collection
