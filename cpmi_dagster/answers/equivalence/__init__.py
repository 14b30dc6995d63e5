r"""When are two answers the same: an exact decision where the answer's form allows one, math-verify where it does not.

plain_text.py    typesetting goes:               "$\dfrac43$"  -> "\frac{4}{3}"
expressions.py   text to a value:                "\frac{4}{3}" -> {1: 4/3}
polynomials.py   exact arithmetic with rationals, square roots, π, i and letters
points.py        values to sixty digits, for what that arithmetic leaves open: roots of sums, sines, logarithms
units.py         units behind a number, in one spelling, and their sizes
forms.py         what kinds of answers there are: number with unit, tuple, interval, set, matrix, words, equation
reading.py       text to its form
relations.py     inequalities, and the intervals they describe
intervals.py     unions of intervals as sets of numbers
compare.py       two forms to True, False, or None where only a computer algebra system can tell
decide.py        the same for two texts
math_verify.py   that system, in worker processes with time-outs
"""
