"""Pairs of answers judged by hand, of every kind there is in GSM8K and MATH.

{"gold": "0.\\\\overline{3}", "candidate": "\\\\frac{1}{3}", "kind": "decimal"}        a line of equivalent_pairs.jsonl
"""

import json
from pathlib import Path

import pytest

from cpmi_dagster.answers.verdicts import equivalent, is_equivalent

HERE = Path(__file__).parent
SAME = [
    # brackets, assignments, parts
    (r"1,\!234", "1234"), ("78/80=.98", ".98"), ("2, 3, \\text{ and } 4", "2,3,4"), (r"\pm1, \pm2", "1, -1, 2, -2"),
    ("x=2, y=3", "y=3, x=2"), (r"x<-2 \text{ or } x>3", r"(-\infty,-2)\cup(3,\infty)"), ("xy=1", "y=1/x"),
    (r"x \in \mathbb{R}", r"(-\infty,\infty)"), (r"(0,2)\cup[1,3]", "(0,3]"), ("0.666666", r"\frac23"),
    (r"\frac15\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1/5\\2/5\end{pmatrix}"), ("0.333333", "1/3"),
    ("1.414214", r"\sqrt2"), (r"\sqrt[3]{-8}", "-2"), ("a_1 + a_2", "a_{2}+a_1"), (r"\[ \boxed{60} \]", "60"),
    (r"\frac{3^{2014}}{2^{2014} \cdot 2014!}", r"1.5^{2014}/2014!"), (r"2 \pm i \mp 3", "i - 1, 5 - i"),
    (r"AB = \sqrt{68} = 2\sqrt{17}", r"2\sqrt{17}"), (r"\{x : x > 1\}", r"(1,\infty)"), ("12_5", "12"),
    (r"\left\langle 1,2 \right\rangle", "(1,2)"), (r"n \equiv 1 \pmod{4}", r"n\equiv1\pmod 4"), ("33'", "33"),
    # words, choices, verdicts
    ("Paris", "paris."), ("B", "(B) Paris"), (r"\textbf{(B)}\ 12", "B"), ("B) Paris", "(b)"), ("Paris", "B. Paris"),
    ("no", "False"), ("Unknown", "uncertain."), (r"\mbox{four}", "4"),
    # units, scales, money
    ("60 km/h", "60 kilometers per hour"), ("5 km", r"5000\text{ m}"), ("2 hours", "120 minutes"), ("5 km", "5"),
    ("1 km^2", "1000000 m^2"), ("1 m^3", "1000 liters"), ("60 mph", "1 mile per minute"), ("3000000", "3 million"),
    ("24 eggs", "2 dozen eggs"), ("0.3", "3 tenths"), ("25", "5 squared"),
    ("50 cents", r"\$0.50"), ("€50", "50 euros"), ("-$5", "-5 dollars"), (r"\$5 per hour", "5 dollars per hour"),
    (r"\$5 + \$6 = \$11", "11"), (r"\$2x", "2x"),
    # numbers in every notation
    ("1e-05", "0.00001"), ("6.02×10²³", "6.02e+23"), ("6.02*10**23", "602000000000000000000000"), (".5e1", "5"),
    ("5×10⁻³", "0.005"), ("3e8 m/s", r"3 \times 10^8 m/s"), ("58 500", "58,500"),
    # memberships, and what only algebra tells
    (r"x \in [0,5)", r"0 \le x < 5"), (r"m \in [\sqrt2,\infty)", r"m \ge \sqrt2"), (r"|x| < 3", "(-3,3)"),
    (r"\binom{4025}{2012}", r"\binom{4025}{2013}"), (r"\sum_{k=1}^{3} k", "6"), (r"\log x", r"\ln x"),
    (r"x > 1 \text{ and } x < 3", "1<x<3"), ("2x < 6", "x < 3"), ("x = 2y", "y = x/2"), (r"\log_2 8 = 3", "3"),
    (r"2^{5000} \cdot 3", r"3 \cdot 4^{2500}"),
]  # fmt: skip
DIFFERENT = [
    ("0.5", ""), ("", "5"), ("no", "18"), ("18", "12/60=<<12/60"), (r"20\%", "20 miles"), ("25_6", r"25\%"),
    (r"(1,\sqrt2)\cup(3,4)", "(1,2)"), ("f(2) < f(1)", "(1,2)"), ("60,120", "60120.5"), ("x=3", "y=3"),
    ("x=2, y=3", "x=3, y=2"), (r"x>1 \text{ and } x<3", r"x>1 \text{ or } x<3"), ("0.333334", "1/3"),
    ("10^{40}+\\sin 1", "10^{40}+\\cos 1"), (r"\sin 30", r"\sin 30^\circ"), (r"\boxed{60}", r"\boxed{60}+1"),
    (r"\frac{1}{2004!}", r"\frac{1}{3004!}"), (r"x \equiv 1 \pmod 4", r"x \equiv 1 \pmod 8"), ("33'", "33''"),
    (r"she wins if \(n \le 2\)", r"she wins if \(n \ge 2\)"), (r"\sqrt{68}=2\sqrt{17}", r"2\sqrt{15}"),
    (r"2^{5000}+1", r"2^{5000}"),
    # words, choices, units, scales, money
    ("not Paris", "Paris"), ("B. Paris", "C. Paris"), ("B", "A. Paris"), ("B. Paris", "B. London"), ("true", "no"),
    (r"\textbf{(E)}", "e^1"), ("yes", "sey"), ("5 km", "500 m"), ("5 kg", "5000 m"), ("1 km^2", "1000 m^2"),
    ("3", "3 million"), ("3", "3 twelfths"), ("5", "negative 5"), ("3 million", "3 billion"), (r"\$50", "50 cents"),
    ("€50", r"\$50"), (r"\$5 per hour", r"\$5 per day"), ("6 m", "6 cm"),
    # only algebra tells
    (r"\binom{4025}{2012}", r"\binom{4025}{2012}+1"), (r"\sqrt{x^2}", "x"), (r"\lfloor 2.5 \rfloor", "3"),
    ("x < 3", "y < 3"), ("x < 3", r"(-\infty, 3]"), ("x > 1", "(1, 2)"), ("x = 3", "x > 3"), (r"x \in (0,1)", "0<y<1"),
]  # fmt: skip


def read_pairs(name: str) -> list[tuple[str, str]]:
    rows = map(json.loads, (HERE / name).read_text(encoding="utf-8").splitlines())
    return [(row["gold"], row["candidate"]) for row in rows]


SAME += read_pairs("equivalent_pairs.jsonl")
DIFFERENT += read_pairs("different_pairs.jsonl")


@pytest.mark.parametrize(("pairs", "verdict"), [(SAME, True), (DIFFERENT, False)])
def test_every_judged_pair_is_judged_so_either_way_round(pairs: list[tuple[str, str]], verdict: bool):
    golds, candidates = zip(*pairs, strict=True)
    forth, back = equivalent(golds, candidates), equivalent(candidates, golds)
    wrong = [pair for pair, each in zip(pairs, zip(forth, back, strict=True), strict=True) if set(each) != {verdict}]
    assert wrong == []
    assert is_equivalent(*pairs[0]) is verdict
