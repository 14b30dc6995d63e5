r"""Wrong answers a student might give, made by editing the right one: same form, one thing changed.

numerals.py     18 -> 19, 16, 20        \frac{2}{3} -> \frac{3}{3}, \frac{3}{2}      2\sqrt{5} -> 2\sqrt{6}
operators.py    x+1 -> x-1              (1, 2] -> (1, 2)        -4 -> 4               \pi -> 2\pi
words.py        \text{Sunday} -> \text{Monday}                  B -> C                \text{odd} -> \text{even}
propose.py      all of them, in an order that mixes the kinds
"""
