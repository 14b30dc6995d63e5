r"""Evaluate plain text or LaTeX.

"14\frac{6}{7}"  -> 104/7       "2\sqrt{12}"  -> 6.928…     "0.\overline{3}" -> 1/3     "1.5 \cdot 10^3" -> 1500
"3(x+1)"         -> its values at three fixed numbers x

A text is rewritten in Python's grammar, `(2)*sqrt((12))`, parsed by `ast`, and evaluated with bounds on all numbers: to
`FEW` digits, which distinguish most values, to `MANY` if these agree, and to `MOST` if the values are huge. Variables
are positive at the first two points and of both signs at the last. Expressions that differ at a positive point differ.
A function applies to the group after it, else to the product up to the next sign or function.
"""

import ast
import operator
import os
import random
import re
import threading
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from math import comb, factorial
from typing import Any, NamedTuple

import mpmath

FEW, MANY, MOST = 50, 1_000, 20_000
POSITIVE_POINTS, POINTS = 2, 3
LARGEST_MAGNITUDE, LARGEST_ARGUMENT = 1 << 16, 10_000
TRIGONOMETRIC = ("sin", "cos", "tan", "cot", "sec", "csc")
FUNCTIONS = (*TRIGONOMETRIC, "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "log", "ln", "exp")

Number = Any  # mpmath's numbers have no types
Numbers = tuple[Number, ...]
_mp = mpmath.MPContext()
_mp.dps = FEW
_lock = threading.Lock()


def _begin_anew() -> None:
    """Reset the lock in a forked process, in which no thread holds it."""
    global _lock
    _lock, _mp.dps = threading.Lock(), FEW


os.register_at_fork(after_in_child=_begin_anew)
_CONSTANTS = {"pi": _mp.pi, "e": _mp.e, "i": _mp.j}
_LETTERS = (
    *("pi", "alpha", "beta", "gamma", "delta", "theta", "lambda", "mu", "phi", "varphi", "omega", "rho", "sigma"),
    *("tau", "zeta", "epsilon", "infty", "ell"),
)
_GROUP = r"\((?:[^()]|\([^()]*\))*\)|\{(?:[^{}]|\{[^{}]*\})*\}"
_APPLIED = re.compile(
    rf"\\({'|'.join(FUNCTIONS)})(?![A-Za-z])\s*(?:\^\s*\{{?(-1|[0-9])\}}?)?\s*(?:_\s*\{{?([0-9]+|[A-Za-z])\}}?)?"
    rf"\s*({_GROUP}|(?:\\frac\{{[^{{}}]*\}}\{{[^{{}}]*\}}|\\sqrt\{{[^{{}}]*\}}|\\(?:{'|'.join(_LETTERS)})(?![A-Za-z])"
    rf"|[0-9.]+|[A-Za-z]|\^(?:[0-9]|{_GROUP})|\s)++)(?!\s*[/(])"
)
_MIXED = re.compile(
    r"(?<![0-9._])([0-9]+)(?:\s*\\frac\{([0-9]{1,9})\}\{([0-9]{1,9})\}|\s+([0-9]{1,9})/([0-9]{1,9})(?![0-9/.]))"
)
_REPEATING = re.compile(r"([0-9]*)\.([0-9]*)\\(?:overline|bar)\s*\{?([0-9]{1,50})\}?")
_OPERAND = re.compile(
    r"@[a-z]+|(?P<number>[0-9]+\.?[0-9]*|\.[0-9]+)|\\(?P<command>[A-Za-z]+)"
    r"|(?P<letter>[fghFGHPQ]\(\s*[0-9]+\s*\)|[A-Za-z](?:_(?:\{[A-Za-z0-9]+\}|[A-Za-z0-9]))?)"
)
_REWRITTEN = [(re.compile(pattern), replacement) for pattern, replacement in (
    (r"\|([^|]*)\|", r"@abs(\1)"),
    (r"\\sqrt\s*\[\s*([0-9]{1,2})\s*\]\s*(?=\{)", r"@root{\1}"),
    (r"\\(frac|binom|sqrt)(?![A-Za-z])\s*(?=[({])", r"@\1"),
    (r"([0-9]+|(?<![A-Za-z@])[A-Za-z]|\((?:[^()]|\([^()]*\))*\))!", r"@factorial(\1)"),
    (r"\}\s*\{", ","),
    (r"\\(?:cdot|times)(?![A-Za-z])", "*"),
    (r"\\div(?![A-Za-z])", "/"),
)]  # fmt: skip
_ALLOWED = re.compile(r"[\w\s.+*/^(){}\[\]\\!|°-]*", re.ASCII)
_ARITHMETIC = re.compile(r"(?:[^A-Za-z\\]|\\(?:frac|sqrt|binom|cdot|times|div)(?![A-Za-z])){1,200}")
"""A short text without variables and functions."""
_SIDE_BY_SIDE = re.compile(r"(?<=[)\]])\s*(?=[(\[@])")


class Value(NamedTuple):
    """A text and its numbers at the fixed points (only one without variables), to `FEW` digits."""

    text: str
    numbers: Numbers


class Undecidable(Exception):
    """The text is not an expression, or is too large or too deep to evaluate."""


def read_value(text: str) -> Value:
    """Evaluate a plain text.

    Raises:
        Undecidable: the text is not an expression, or cannot be evaluated.
    """
    return Value(text, _evaluate_text(text, FEW))


def same(gold: Value, candidate: Value, scale: Fraction = Fraction(1)) -> bool | None:
    """Whether `gold` times `scale` equals `candidate`; None if they differ only where variables are negative.

    Raises:
        Undecidable: the values are so huge that comparing them could take minutes.
    """
    left, right = gold.numbers, candidate.numbers
    is_arithmetic = all(_ARITHMETIC.fullmatch(value.text) for value in (gold, candidate))
    for digits in (FEW, MANY, MOST) if is_arithmetic else (FEW, MANY):
        if digits > FEW:
            left, right = _evaluate_text(gold.text, digits), _evaluate_text(candidate.text, digits)
        points = max(len(left), len(right))
        with _lock, _mp.workdps(digits):
            pairs = list(zip(left * (points // len(left)), right * (points // len(right)), strict=True))
            gaps = [_mp.mag(scale.numerator * first / scale.denominator - second) for first, second in pairs]
            sizes = [_mp.mag(number) for pair in pairs for number in pair if number]
        are_close = [gap < max([0, *sizes]) - 3 * digits for gap in gaps]
        if not all(are_close[:POSITIVE_POINTS]):
            return False
        # in arithmetic, a number close to zero may be a small number; with functions it is zero
        largest = max((abs(size) if is_arithmetic else size for size in sizes), default=0)
        if digits > FEW and largest < 3 * digits:
            return True if all(are_close) else None
    raise Undecidable("too large")


def real_value(value: Value) -> float | None:
    """The value of a real constant as a float; None for anything else."""
    try:
        return float(value.numbers[0]) if len(value.numbers) == 1 else None
    except (TypeError, OverflowError):
        return None


def is_rounded(decimal: Value, places: int, exact: Value) -> bool:
    """Whether a decimal with `places` digits is the rounded or truncated value of a real, not whole constant."""
    if real_value(exact) is None or not _mp.isfinite(exact.numbers[0]) or _mp.isint(exact.numbers[0]):
        return False
    shifted = exact.numbers[0] * 10**places
    return _mp.nint(decimal.numbers[0] * 10**places) in {int(shifted), _mp.nint(shifted)}


def _evaluate_text(text: str, digits: int) -> Numbers:
    try:
        tree = ast.parse(_write_in_python(text), mode="eval").body
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        points = POINTS if names - set(_CONSTANTS) - set(_FUNCTIONS) else 1
        with _lock, _mp.workdps(digits):
            return tuple(_evaluate(tree, point) for point in range(points))
    except (SyntaxError, ValueError, ArithmeticError, TypeError, RecursionError, MemoryError) as error:
        raise Undecidable(str(error)) from error


def _evaluate(node: ast.expr, point: int) -> Number:
    match node:
        case ast.Constant(value=int(number)):
            return _mp.mpf(number)
        case ast.Name(id=name):
            return +_CONSTANTS[name] if name in _CONSTANTS else _number_at(name, point)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand) | ast.List(elts=[operand]):
            return _evaluate(operand, point)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, point)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_evaluate(left, point), _evaluate(right, point))
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_evaluate(argument, point) for argument in arguments))
    raise Undecidable("not an expression")


def _write_in_python(text: str) -> str:
    """Rewrite a text in Python's grammar, with brackets around operands and explicit multiplication."""
    if not _ALLOWED.fullmatch(text):
        raise Undecidable(f"cannot read {text!r}")
    text = _REPEATING.sub(_write_repeating_decimal, _MIXED.sub(_write_mixed_number, text.strip()))
    text = _APPLIED.sub(_write_application, re.sub(r"([0-9.]+)\s*°", r"(\1\\pi/180)", text))
    for pattern, replacement in _REWRITTEN:
        text = pattern.sub(replacement, text)
    text = _OPERAND.sub(_write_operand, text).replace("{", "(").replace("}", ")")
    return _SIDE_BY_SIDE.sub("*", text).replace("^", "**").replace("@", "")


def _write_operand(operand: re.Match[str]) -> str:
    if number := operand["number"]:
        whole, _, decimals = number.partition(".")
        return f"({int(whole + decimals)}/{10 ** len(decimals)})" if decimals else f"({int(whole)})"
    if operand["command"] and operand["command"] not in _LETTERS:
        raise Undecidable(f"cannot read {operand['command']}")
    name = operand["command"] or operand["letter"]
    return f"({re.sub(r'[^A-Za-z0-9]+', '_', name).strip('_')})" if name else operand[0]


def _write_mixed_number(mixed: re.Match[str]) -> str:
    whole, top, bottom = (part for part in mixed.groups() if part is not None)
    return f"({whole}+{top}/{bottom})" if int(top) < int(bottom) else mixed[0]


def _write_repeating_decimal(decimal: re.Match[str]) -> str:
    whole, start, repeating = decimal.groups()
    return f"({whole or 0}.{start or 0}+{int(repeating)}/{10 ** len(start + repeating) - 10 ** len(start)})"


def _write_application(applied: re.Match[str]) -> str:
    r"""`\sin^2 x` as `(@sin{x})^2`, `\sin^{-1} x` as `@arcsin{x}`, `\log_2 8` as `@log{8}{2}`."""
    name, power, base, argument = applied.groups()
    argument = argument[1:-1] if argument[0] in "({" else argument
    call = f"@{'arc' if power == '-1' else ''}{name}{{{argument}}}" + (f"{{{base}}}" if base else "")
    return f"({call})^{power}" if power and power != "-1" else call


def _number_at(letter: str, point: int) -> Number:
    """The fixed number of a variable at a point."""
    generator = random.Random(f"{point} {letter}")
    number = _mp.mpf(generator.uniform(0.25, 2.25))
    return -number if point >= POSITIVE_POINTS and generator.random() < 0.8 else number


def _power(base: Number, exponent: Number) -> Number:
    if base and abs(exponent) * max(1, abs(_mp.mag(base))) > LARGEST_MAGNITUDE:
        raise Undecidable("power too large")
    return base**exponent


def _root(degree: Number, radicand: Number) -> Number:
    if degree == 2:
        return _mp.sqrt(radicand)
    is_negative = degree % 2 and not _mp.im(radicand) and radicand < 0
    return -_mp.root(-radicand, int(degree)) if is_negative else _mp.root(radicand, int(degree))


def _apply(function: Callable[..., Number], *arguments: Number) -> Number:
    """Apply a function to small arguments; factorial and binomial take whole numbers only."""
    if any(abs(argument) > LARGEST_ARGUMENT for argument in arguments):
        raise Undecidable("argument too large")
    if function not in {factorial, comb}:
        return function(*arguments)
    if not all(_mp.isint(argument) and argument >= 0 for argument in arguments):
        raise Undecidable("not of whole numbers")
    return _mp.mpf(function(*map(int, arguments)))


_OPERATORS: dict[type, Callable[[Number, Number], Number]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: _power,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Number]] = {
    **{
        name: partial(_apply, getattr(_mp, name.replace("arc", "a")))
        for name in (*FUNCTIONS, "arccot", "arcsec", "arccsc")
    },
    "ln": _mp.ln,
    "log": lambda number, base=10: _mp.ln(number) / _mp.ln(base),
    "frac": operator.truediv,
    "sqrt": partial(_root, 2),
    "root": _root,
    "abs": abs,
    "factorial": partial(_apply, factorial),
    "binom": partial(_apply, comb),
}
