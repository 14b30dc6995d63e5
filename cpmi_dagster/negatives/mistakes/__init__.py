r"""Wrong answers a student might give, made by editing the right one: same form, one thing changed.

propose.py           all edits, likely ones first, in a seeded order that mixes the kinds
number_changes.py    18 -> 19, 16, 20       2\sqrt{5} -> 2\sqrt{6}          2, -2 -> 3, -3
fraction_changes.py  \frac{2}{3} -> \frac{3}{2}       operators.py  x+1 -> x-1        -4 -> 4
multiples.py         \pi -> 2\pi                      digits.py     422_8 -> 423_8
intervals.py         (1, 2] -> (1, 2)                  lists.py      -3, 1, 5 -> -3, 1      (3, -2) -> (-2, 3)
letters.py           \text{(B)} -> \text{(C)}          words.py      \text{odd} -> \text{even}
chains.py            0.56 = 56\% -> 0.57 = 57\%
plausible.py         which edits are implausible, and which would have been simplified
notation.py, numerals.py, values.py    how arguments, numbers and ends of intervals are written and read
"""
