r"""Expression problems in MATH's manner: LaTeX questions whose plans work on fractions, roots and remainders.

    What is the value of $\frac{1}{2}+\frac{3}{4}-\frac{1}{3}$?     (Prealgebra)
    → "$\frac{1}{2}+\frac{3}{4}=\frac{5}{4}$."  "$\frac{5}{4}-\frac{1}{3}=\frac{11}{12}$."   answer \frac{11}{12}

Each maker takes a random generator, the number of operations wanted (some have a fixed length and ignore it) and the
scale of the numbers, and returns the question and the plan.
"""

import random
from collections.abc import Callable

from scripts.miniature_world.plans import Earlier, Operand, Operation, Problem, run_plan
from scripts.miniature_world.quantities import UndefinedResult, as_latex, rational, whole
from scripts.miniature_world.word_problems import STANDARD, Difficulty, draw_length

Draft = tuple[str, list[Operation]]
Maker = Callable[[random.Random, int, int], Draft]

DENOMINATORS = (2, 3, 6)
RADICANDS = (2, 3, 5)

PLAIN = ("$@work$.", "We get $@work$.", "This gives $@work$.")
FRACTION = ("The fraction is $@work$.", "Inside, $@work$.")
FACTOR_OF_X = ("The factor of $x$ is $@work$.", "Collecting $x$: $@work$.")
RIGHT_SIDE = ("The other side is $@work$.", "The constants give $@work$.")
VALUE_OF_X = ("So $x=@work$.", "Hence $x=@work$.")
EXPANSION = ("Expanding, $@work$.", "The bracket gives $@work$.")
LEFT_CONSTANT = ("The left constant is $@work$.", "On the left we have $@work$.")
SIMPLE_ROOT = (r"$\sqrt{@left}=@result$.", r"We simplify $\sqrt{@left}=@result$.")
SUM = ("The sum is $@work$.", "We get $@work$.", "This gives $@work$.")
PRODUCT = ("$@work$.", "The product is $@work$.")
REMAINDER = (
    "$@left$ leaves the remainder $@result$ modulo $@right$.",
    "Divided by $@right$, $@left$ leaves $@result$.",
)
COUNT = ("Adding up, $@work$.", "Counting, $@work$.")
WANTED = ("Wanted are $@work$.", "The good marbles are $@work$.")
PROBABILITY = ("The probability is $@work$.", "So we get $@work$.")
SQUARE = ("One square is $@work$.", "We get $@work$.", "This gives $@work$.")
SUM_OF_SQUARES = ("The squares add up to $@work$.", "The sum is $@work$.")
DIAGONAL = (r"The diagonal is $\sqrt{@left}=@result$.", r"The root is $\sqrt{@left}=@result$.")
STRETCH = ("First $@work$.", "The factor gives $@work$.")
SHIFT = ("Then $@work$.", "So $f$ is $@work$.")


def _add(
    operations: list[Operation], left: Operand | int, operator: str, right: Operand | int, sentences: tuple[str, ...]
) -> Earlier:
    """Add an operation to a plan; its result, for later operations."""
    left, right = (whole(operand) if isinstance(operand, int) else operand for operand in (left, right))
    operations.append(Operation(left, operator, right, sentences))
    return Earlier(len(operations) - 1)


def make_fraction_sum(rng: random.Random, length: int, scale: int) -> Draft:
    """A sum and difference of fractions, worked from left to right."""
    drawn = (rng.choice(DENOMINATORS) for _ in range(length + 1))
    terms = [rational(rng.randint(1, denominator * 2 - 1), denominator) for denominator in drawn]
    signs = [rng.choice("+-") for _ in range(length)]
    operations: list[Operation] = []
    expression, total = as_latex(terms[0]), terms[0]
    for sign, term in zip(signs, terms[1:], strict=True):
        expression += sign + as_latex(term)
        total = _add(operations, total, sign, term, PLAIN)
    return f"What is the value of ${expression}$? Express your answer as a common fraction.", operations


def make_nested_fraction(rng: random.Random, length: int, scale: int) -> Draft:
    """A continued fraction, worked from the inside out, two operations for each level."""
    value: Operand = whole(rng.randint(2, 4))
    expression = as_latex(value)
    operations: list[Operation] = []
    for _level in range(max(1, length // 2)):
        top, front = rng.randint(1, 4), rng.randint(1, 4 * scale)
        expression = rf"{front}+\frac{{{top}}}{{{expression}}}"
        fraction = _add(operations, top, "/", value, FRACTION)
        value = _add(operations, front, "+", fraction, PLAIN)
    return f"Simplify ${expression}$.", operations


def make_linear_equation(rng: random.Random, length: int, scale: int) -> Draft:
    """A linear equation in x; with five or more operations it has brackets on the left."""
    a, b, c = rng.randint(5, 9 * scale), rng.randint(2, 12), rng.randint(2, 4)
    x, e = rng.randint(2, 9), rng.randint(2, 12)
    operations: list[Operation] = []
    if length < 5:
        left, right = f"{a}x+{b}", (a - c) * x + b
        factor = _add(operations, a, "-", c, FACTOR_OF_X)
        constant: Operand = whole(b)
    else:
        left, right = f"{a}(x+{b})+{e}", (a - c) * x + a * b + e
        expanded = _add(operations, a, "*", b, EXPANSION)
        constant = _add(operations, expanded, "+", e, LEFT_CONSTANT)
        factor = _add(operations, a, "-", c, FACTOR_OF_X)
    other_side = _add(operations, right, "-", constant, RIGHT_SIDE)
    _add(operations, other_side, "/", factor, VALUE_OF_X)
    return f"Solve for $x$: ${left}={c}x+{right}$.", operations


def make_root_sum(rng: random.Random, length: int, scale: int) -> Draft:
    """A sum of multiples of one root; each term but the last takes a root, a product and a sum."""
    radicand = rng.choice(RADICANDS)
    operations: list[Operation] = []
    expression = ""
    total: Earlier | None = None
    for term in range(max(2, (length + 1) // 3)):
        factor, square = rng.randint(2, 4), rng.randint(2, 3 + scale) ** 2
        sign = "+" if term == 0 else rng.choice("+-")
        expression += rf"{sign if term else ''}{factor}\sqrt{{{square * radicand}}}"
        root = _add(operations, square * radicand, "sqrt", 2, SIMPLE_ROOT)
        product = _add(operations, factor, "*", root, PLAIN)
        total = product if total is None else _add(operations, total, sign, product, SUM)
    return f"Simplify ${expression}$.", operations


def make_remainder(rng: random.Random, length: int, scale: int) -> Draft:
    """A remainder of a sum of products."""
    modulus = rng.randint(3, 7)
    operations: list[Operation] = []
    products: list[str] = []
    total: Earlier | None = None
    for _product in range(max(1, length // 2)):
        a, b = rng.randint(3, 9 * scale), rng.randint(2, 9)
        products.append(rf"{a} \cdot {b}")
        product = _add(operations, a, "*", b, PRODUCT)
        total = product if total is None else _add(operations, total, "+", product, SUM)
    _add(operations, Earlier(len(operations) - 1), "mod", modulus, REMAINDER)
    return f"What is the remainder when ${'+'.join(products)}$ is divided by ${modulus}$?", operations


def make_marbles(rng: random.Random, length: int, scale: int) -> Draft:
    """The probability of drawing one of some colours from a bag."""
    colors = ["red", "blue", "green", "white", "black", "yellow"][: max(3, min(6, (length + 2) // 2 + 1))]
    counts = [rng.randint(1, 5 * scale) for _ in colors]
    wanted = rng.sample(range(len(colors)), 2)
    operations: list[Operation] = []
    total: Operand = whole(counts[0])
    for count in counts[1:]:
        total = _add(operations, total, "+", count, COUNT)
    good = _add(operations, counts[wanted[0]], "+", counts[wanted[1]], WANTED)
    _add(operations, good, "/", total, PROBABILITY)
    bag = ", ".join(f"${count}$ {color}" for count, color in zip(counts, colors, strict=True))
    pair = " or ".join(colors[index] for index in wanted)
    return f"A bag holds marbles: {bag}. One is drawn. What is the probability that it is {pair}?", operations


def make_hypotenuse(rng: random.Random, length: int, scale: int) -> Draft:
    """A diagonal by Pythagoras; with five or more operations, of a box."""
    sides = [rng.randint(2, 9 * scale) for _ in range(3 if length >= 5 else 2)]
    operations: list[Operation] = []
    total: Earlier | None = None
    for side in sides:
        square = _add(operations, side, "*", side, SQUARE)
        total = square if total is None else _add(operations, total, "+", square, SUM_OF_SQUARES)
    _add(operations, Earlier(len(operations) - 1), "sqrt", 2, DIAGONAL)
    shape = "box" if len(sides) == 3 else "rectangle"
    lengths = r" \times ".join(map(str, sides))
    return f"What is the length of the diagonal of a ${lengths}$ {shape}?", operations


def make_iterated_function(rng: random.Random, length: int, scale: int) -> Draft:
    """A linear function applied again and again, two operations each time."""
    factor, shift, start = rng.randint(2, 3), rng.randint(2, 5 * scale), rng.randint(2, 5)
    sign, times = rng.choice("+-"), min(5 - factor, max(1, length // 2))
    operations: list[Operation] = []
    value: Operand = whole(start)
    for _time in range(times):
        stretched = _add(operations, factor, "*", value, STRETCH)
        value = _add(operations, stretched, sign, shift, SHIFT)
    expression = "f(" * times + str(start) + ")" * times
    return f"If $f(x)={factor}x{sign}{shift}$, what is ${expression}$?", operations


SUBJECTS: dict[str, tuple[Maker, ...]] = {
    "Prealgebra": (make_fraction_sum,),
    "Algebra": (make_linear_equation, make_nested_fraction),
    "Intermediate Algebra": (make_root_sum,),
    "Number Theory": (make_remainder,),
    "Counting & Probability": (make_marbles,),
    "Geometry": (make_hypotenuse,),
    "Precalculus": (make_iterated_function,),
}


def make_expression_problem(rng: random.Random, difficulty: Difficulty = STANDARD) -> Problem:
    """A random expression problem."""
    while True:
        subject = rng.choice(list(SUBJECTS))
        make = SUBJECTS[subject][0 if rng.random() < 0.5 else -1]
        question, operations = make(rng, draw_length(rng, difficulty), difficulty.scale)
        if not min(difficulty.fewest, 5) <= len(operations) <= difficulty.most + 1:
            continue
        try:
            run_plan(operations)
        except UndefinedResult:
            continue
        return Problem("MATH", subject, min(5, max(1, len(operations) - 1)), question, tuple(operations))
