r"""When are two answers the same: an exact decision where the answer's form allows one, math-verify where it does not.

plain_text.py    typesetting goes:               "$\dfrac43$"  -> "\frac{4}{3}"
expressions.py   text to an exact polynomial:    "\frac{4}{3}" -> {1: 4/3}
polynomials.py   exact arithmetic with rationals, square roots, π, i and letters
forms.py         what kind of answer it is:      number with unit, tuple, interval, set, matrix, words, equation
decide.py        two forms to True, False, or None where only a computer algebra system can tell
math_verify.py   that system, in worker processes with time-outs
"""
