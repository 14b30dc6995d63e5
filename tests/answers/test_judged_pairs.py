"""Pairs of answers judged by hand, of every kind there is in GSM8K and MATH, and what grading them costs.

{"gold": "0.\\\\overline{3}", "candidate": "\\\\frac{1}{3}", "kind": "decimal"}        a line of equivalent_pairs.jsonl
"""

import json
from pathlib import Path

import pytest

from cpmi_dagster.answers.verdicts import decide, equivalent, is_equivalent

HERE = Path(__file__).parent
MOST_LEFT_TO_ALGEBRA = 0.11
SAME = [
    ("1/2", "0.5"), (r"\frac{1}{2}", "0.5"), (r"\dfrac12", "1/2"), ("1,234", "1234"), (r"1,\!234", "1234"),
    (r"10{,}000", "10000"), (r"\$18", "18"), ("18 dollars", "$18"), ("18", "18.00"), ("50\\%", "50"), ("50%", "0.5"),
    ("25 percent", "25%"), (r"120^\circ", "120"), (r"120^{\circ}", "120 degrees"), (r"2\sqrt{3}", r"\sqrt{12}"),
    (r"\frac{3}{\sqrt{10}}", r"\frac{3\sqrt{10}}{10}"), (r"14\frac{6}{7}", r"\frac{104}{7}"), ("2 1/2", "2.5"),
    ("x=5", "5"), (r"x \in [1,2]", r"x\in[1,2]"), ("f(x) = 2x", "2x"), ("(1, 2)", r"\left(1,2\right)"),
    ("1, -2", "-2,1"), (r"\{1,2\}", "2, 1"), (r"2, 3, \text{ and } 4", "2,3,4"), (r"\text{(C)}", "C"),
    (r"\text{Sunday}", "sunday"), ("yes", "Yes"), (r"\mbox{four}", "4"), (r"5225 \text{ cubic inches}", "5225"),
    (r"2400 \mbox{ cm}^2", r"2400\text{ square centimeters}"), ("4:51 p.m.", r"4\!:\!51 \text{ p.m.}"),
    (r"\begin{pmatrix}1/2\\3\end{pmatrix}", r"\begin{bmatrix} 0.5 \\ 3 \end{bmatrix}"), ("422_8", "422_{8}"),
    ("(2x+3)(x-3)", "2x^2-3x-9"), (r"3 \pm \sqrt{2}", r"3-\sqrt2, 3+\sqrt2"), ("6-2i", "-2i+6"), ("i^2", "-1"),
    (r"(-\infty,2)\cup[3,4)", r"[3,4) \cup (-\infty, 2)"), ("78/80=.98", ".98"), ("2^{10}", "1024"),
    (r"\frac{1+\sqrt5}{2}", r"\frac12+\frac{\sqrt5}{2}"), (r"10x\sqrt{21x}", r"10x \sqrt{x \cdot 21}"),
    ("x + y = 2", "2x + 2y - 4 = 0"), ("3:2", "3 : 2"), (r"1.5\times10^3", "1500"), (r"x \le 3", r"x\leq 3"),
    (r"\sqrt[3]{8}", "2"), ("½", "0.5"), ("$7$.", "7"),
    (r"(0,\sqrt8)\cup(2,\pi)", r"(0,2\sqrt2) \cup (2,\pi)"), ("12_5", "12"),
    (r"60^\circ,120^\circ", "60, 120"), ("5 miles/hour", "5 mph"), ("60 km/h", "60 kilometers per hour"),
    (r"7\text{ m/s}", "7 meters per second"), ("2ab", "2ba"), ("x-y", "-y+x"), ("2xy + 10xy", "12xy"),
    (r"\pm1, \pm2", "1, -1, 2, -2"), ("x=2, y=3", "y=3, x=2"), ("xy=1", "y=1/x"), ("y=2x", "f(x)=2x"),
    (r"x<-2 \text{ or } x>3", r"(-\infty,-2)\cup(3,\infty)"), (r"x\ne 2", r"(-\infty,2)\cup(2,\infty)"),
    (r"x \in \mathbb{R}", r"(-\infty,\infty)"), (r"(0,2)\cup[1,3]", "(0,3]"), (r"2 < x \le 3", "(2,3]"),
    (r"\frac15\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1/5\\2/5\end{pmatrix}"), ("0.333333", "1/3"),
    ("1.414214", r"\sqrt2"), (r"\ln 2", "0.693147"), (r"\sqrt[3]{-8}", "-2"), ("-80\\leq y", "y\\geq -80"),
    (r"\overline{CD}", "CD"), ("a_1 + a_2", "a_{2}+a_1"), (r"\theta = 30^\circ", "30"), ("2^{100}+1", "1+4^{50}"),
    (r"\[ \boxed{60} \]", "60"), (r"$x = \boxed{5}$.", "5"),
    (r"\frac{3^{2014}}{2^{2014} \cdot 2014!}", r"1.5^{2014}/2014!"),
    (r"\sin^{-1} x", r"\arcsin x"), (r"2 \pm i \mp 3", "i - 1, 5 - i"),
    # chains of constants are their last side
    (r"\sqrt{68}=2\sqrt{17}", r"2\sqrt{17}"), (r"\sqrt{68}=2\sqrt{17}", r"\sqrt{68}"),
    (r"AB = \sqrt{68} = 2\sqrt{17}", r"2\sqrt{17}"),
    # thousands, sets, vectors, congruences
    (r"58\,500", "58500"), ("58 500", "58,500"), (r"1\,234\,567", "1234567"), ("58\u202f500", "58500"),
    (r"\{n \ge 13\}", r"n \ge 13"), (r"\{x \mid x > 1\}", "x>1"), (r"\{x : x > 1\}", r"(1,\infty)"),
    (r"\{x \in \mathbb{R} \mid x \ne 2\}", r"x \ne 2"), (r"\langle1,2,3\rangle", "(1,2,3)"),
    (r"\left\langle 1,2 \right\rangle", "(1,2)"), (r"n \equiv 1 \pmod{4}", r"n\equiv1\pmod 4"),
    # degrees and minutes
    ("33'", "33"), (r"33^\circ", "33 degrees"), (r"25^{\circ} \mathrm{C}", "25"),
    # words, choices, verdicts
    ("Paris", "paris."), ("(B)", "B"), ("B", "B. Paris"), ("B", "(B) Paris"), (r"\textbf{(B)}\ 12", "B"),
    ("B) Paris", "(b)"), ("Paris", "B. Paris"), ("12", r"\textbf{(E) } 12"), ("yes", "Yes."), ("true", "True"),
    ("no", "False"), ("Unknown", "uncertain."),
    # units
    ("5 km", "5km"), ("5 km", "5 kilometers"), ("5 km", "5000 m"), ("5 km", r"5000\text{ m}"), ("5 km", "5"),
    ("2 hours", "120 minutes"), ("1 km^2", "1000000 m^2"), ("1 m^3", "1000 liters"), ("3 feet", "36 inches"),
    ("60 mph", "1 mile per minute"), ("1.5 kg", "1500 g"), ("5 dollars", "500 cents"),
    # words that are part of the number
    ("3000000", "3 million"), ("24", "2 dozen"), ("24 eggs", "2 dozen eggs"), ("2.5", "5 halves"), ("0.3", "3 tenths"),
    ("300000", "3 hundred thousand"), (r"2 \frac{1}{2} \text{ million}", "2500000"), ("3 million dollars", "3000000"),
    ("25", "5 squared"), ("3 million square feet", "3000000"), ("5", "5 negative numbers"),
    # money
    ("50 cents", r"\$0.50"), ("50", r"\$50"), (r"\$50", "50.00"), ("€50", "50 euros"), ("50 €", "€50"),
    (r"\$0.50", "50¢"),
    ("-$5", "-5 dollars"), (r"\$3 \text{ million}", "3000000"), (r"\$5 per hour", "5 dollars per hour"),
    (r"\$2x", "2x"),
    (r"\$5", r"\$5 each"), (r"\$5 + \$6 = \$11", "11"), (r"\$1,\!234.50", "1234.5 dollars"),
    # only algebra tells
    (r"\binom{4025}{2012}", r"\binom{4025}{2013}"), (r"\sum_{k=1}^{3} k", "6"), (r"|x| < 3", "(-3,3)"),
    (r"x > 1 \text{ and } x < 3", "1<x<3"), ("2x < 6", "x < 3"),
    (r"x \le 2 \text{ or } x \ge 4", r"(-\infty,2]\cup[4,\infty)"), (r"\log x", r"\ln x"), (r"\log_2 8 = 3", "3"),
    ("x = 2y", "y = x/2"),
    ("(B)", "B"), ("x <= 3", r"x \leq 3"),
    # numbers in every notation
    ("1e-3", "0.001"), ("1e-05", "0.00001"), ("6.02e23", r"6.02 \times 10^{23}"), ("6.02×10²³", "6.02e+23"),
    ("6.02 x 10^23", "6.02E23"), ("6.02*10**23", "602000000000000000000000"), ("1e6", "1,000,000"), (".5e1", "5"),
    ("2.5e3", "2500"), ("-1.5e-2", "-0.015"), ("5×10⁻³", "0.005"), ("3e8 m/s", r"3 \times 10^8 m/s"), ("x**2", "x^2"),
    (r"28\%", "28 pct"),
    # memberships
    (r"x \in [0,5)", r"0 \le x < 5"), (r"m \in [\sqrt2,\infty)", r"m \ge \sqrt2"), (r"x \in (0,1)", "0<x<1"),
    (r"x\in(-\infty,2)\cup(2,\infty)", r"x \ne 2"), ("x∈[0,5)", "0≤x<5"),
]  # fmt: skip
DIFFERENT = [
    ("18", "19"), ("1/2", "0.25"), ("0.5", ""), ("", "5"), ("(1,2)", "(2,1)"), ("[1,2)", "(1,2)"), ("east", "west"),
    ("5 cm", "5 m"), ("10 minutes", "10 hours"), ("x+1", "x-1"), ("A", "B"), ("422_8", "423_8"), ("1,2", "1,3"),
    (r"2\pi", "6"), (r"\frac{1}{3}", "0.33"), ("18", "-18"), (r"2\sqrt{5}", r"2\sqrt{6}"), ("x^2", "x^3"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}2\\1\end{pmatrix}"), ("1,2", "1,2,3"), ("no", "18"),
    ("x + y = 2", "x + y = 3"), ("18", "12/60=<<12/60"), ("odd", "even"), ("3:2", "2:3"),
    (r"20\%", "20 miles"), ("25_6", r"25\%"), ("1_7", "001"), (r"(1,\sqrt2)\cup(3,4)", "(1,2)"),
    ("2^{4181}", r"\frac{r}{h+r}"), ("f(2) < f(1)", "(1,2)"),
    (r"\frac{1}{2004!}", "123_5"), ("101_2", "3000!"),
    ("60,120", "60120.5"), ("21/2", "2 1/2"), ("x=3", "y=3"), ("x=2, y=3", "x=3, y=2"), ("2ab", "2a+b"),
    ("6 m", "6 cm"),
    (r"(0,1)\cup(1,2)", "(0,2)"), (r"x>1 \text{ and } x<3", r"x>1 \text{ or } x<3"), ("0.333334", "1/3"),
    ("3.14159", r"\pi"), ("f(2)+f(3)", "5f"), (r"\{1,2\}", "(1,2)"), ("10^{40}+\\sin 1", "10^{40}+\\cos 1"),
    ("(1,2,3)", r"(1,2)\cup(3,4)"), (r"\sin 30", r"\sin 30^\circ"), ("x^3=1", "x^2=1"),
    (r"\boxed{60}", r"\boxed{60}+1"), (r"\[\binom{n}{2}\]", r"-\[\binom{n}{2}\]"),
    (r"\frac{1}{2004!}", r"\frac{1}{3004!}"),
    (r"\frac{1}{2} \max A \text{ or less}", "3"), (r"x \equiv 1 \pmod 4", r"x \equiv 1 \pmod 8"),
    (r"she wins if \(n \le 2\)", r"she wins if \(n \ge 2\)"), ("200203_{-4}", "200203_{-5}"), ("25_{6}", "25_{}"),
    (r"\sqrt{68}=2\sqrt{17}", r"2\sqrt{15}"), (r"58\,500", "29000"), (r"\{n \ge 13\}", "n > 13"),
    (r"\langle1,2,3\rangle", "(1,3,2)"), (r"n \equiv 1 \pmod{4}", r"n \equiv 1 \pmod{8}"),
    (r"33^\circ", "33'"), ("33'", "33''"), (r"\text{(E)}", "e^1"), ("E", "e^{1}"),
    ("Paris", "London"), ("not Paris", "Paris"), ("B. Paris", "C. Paris"), ("B", "A. Paris"), ("B. Paris", "B. London"),
    ("12", r"\textbf{(E) } 13"), ("yes", "no"), ("true", "no"), ("unknown", "no"), ("no", "on"), ("yes", "sey"),
    ("5 km", "5 m"), ("5 km", "500 m"), ("5 km", "4 miles"), ("5 kg", "5000 m"), ("1 km^2", "1000 m^2"),
    ("3 feet", "3 inches"), ("2 hours", "2 minutes"), ("(A) 3", "3A+1"), ("x^2=4", "x=2"),
    ("3", "3 million"), ("2", "2 dozen"), ("3", "3 tenths"), ("5", "5 squared"), ("3", "3 zillion"),
    ("3", "3 twelfths"), ("5", "5 negative"), ("5", "negative 5"), ("3 million", "3 billion"),
    ("5 dollars", "5 hundred dollars"),
    (r"\$50", "50 cents"), ("€50", r"\$50"), ("50 €", "£50"), (r"\$5, \$6", "5 cents, 6 cents"),
    (r"\$3 million", r"\$3"),
    (r"\$5 per hour", r"\$5 per day"),
    (r"\frac{1}{3^{98}}", r"\frac{1}{4^{98}}"), (r"1/3 + 1/(3 \cdot 2^{2003})", r"1/3 - 1/(3 \cdot 2^{2003})"),
    # only algebra tells
    (r"\binom{4025}{2012}", r"\binom{4025}{2012}+1"), (r"10^{400}+\sin 1", r"10^{400}+\cos 1"), (r"\sqrt{x^2}", "x"),
    (r"\frac{1}{2} \max A + 3", r"\frac{3}{2} \max A + 3"), (r"\lfloor 2.5 \rfloor", "3"), ("x < 3", "y < 3"),
    (r"\lfloor x \rfloor + 2", r"\lfloor y \rfloor + 2"), ("x < 3", r"(-\infty, 3]"), ("x > 1", "(1, 2)"),
    ("x = 3", "x > 3"),
    ("1e3", "1e4"), ("2e", "2e1"), ("1E5_{16}", "100000"), (r"x \in (0,1)", "0<y<1"), (r"x \in [0,5]", r"0 \le x < 5"),
]  # fmt: skip


def read_pairs(name: str) -> list[tuple[str, str]]:
    rows = map(json.loads, (HERE / name).read_text(encoding="utf-8").splitlines())
    return [(row["gold"], row["candidate"]) for row in rows]


SAME += read_pairs("equivalent_pairs.jsonl")
DIFFERENT += read_pairs("different_pairs.jsonl")


@pytest.mark.parametrize(("pairs", "verdict"), [(SAME, True), (DIFFERENT, False)])
def test_every_judged_pair_is_judged_so_either_way_round(pairs: list[tuple[str, str]], verdict: bool):
    assert [pair for pair in pairs if is_equivalent(*pair) is not verdict] == []
    assert [pair for pair in pairs if is_equivalent(*reversed(pair)) is not verdict] == []


def test_few_of_them_are_left_to_algebra():
    assert len(SAME) > 350 and len(DIFFERENT) > 500
    undecided = [pair for pair in SAME + DIFFERENT if decide(*pair) is None]
    assert len(undecided) < MOST_LEFT_TO_ALGEBRA * len(SAME + DIFFERENT)


def test_many_pairs_are_judged_in_order():
    pairs = [("18", "18"), (r"\max(1, 2)", "2"), ("18", "20"), (r"\max(1, 2)", "2")]
    assert equivalent(*zip(*pairs, strict=True)) == [is_equivalent(*pair) for pair in pairs]
