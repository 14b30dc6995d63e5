r"""When are two answers the same: by what they are where their form allows it, by math-verify where it does not.

plain_text.py    typesetting goes:           "$\dfrac43$"     -> "\frac{4}{3}"
units.py         units behind a number:      "3 feet"         -> ("3", "foot")
expressions.py   text to its value:          "\frac{4}{3}"    -> 4/3
forms.py         text to its form:           "(1, 2)"         -> Collection("()", [1, 2]); and two forms compared
math_verify.py   a computer algebra system in processes of its own, for the rest
"""
