"""What the exact comparison accepts, what it turns down, and what it leaves to algebra."""

import pytest

from cpmi_dagster.answers.equivalence.decide import decide
from cpmi_dagster.answers.verdicts import is_equivalent

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
]  # fmt: skip
MORE_SAME = [
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
]  # fmt: skip
DIFFERENT = [
    ("18", "19"), ("1/2", "0.25"), ("0.5", ""), ("", "5"), ("(1,2)", "(2,1)"), ("[1,2)", "(1,2)"), ("east", "west"),
    ("5 cm", "5 m"), ("10 minutes", "10 hours"), ("x+1", "x-1"), ("A", "B"), ("422_8", "423_8"), ("1,2", "1,3"),
    (r"2\pi", "6"), (r"\frac{1}{3}", "0.33"), ("18", "-18"), (r"2\sqrt{5}", r"2\sqrt{6}"), ("x^2", "x^3"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}2\\1\end{pmatrix}"), ("1,2", "1,2,3"), ("no", "18"),
    ("x + y = 2", "x + y = 3"), ("18", "12/60=<<12/60"), ("odd", "even"), ("3:2", "2:3"),
]  # fmt: skip


MORE_DIFFERENT = [
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
]  # fmt: skip
UNDECIDED = [
    (r"\binom{4025}{2012}", r"\binom{4025}{2013}", True),
    (r"\binom{4025}{2012}", r"\binom{4025}{2012}+1", False),
    (r"10^{60}+\sin 1", r"10^{60}+\cos 1", False),
    (r"\frac{1}{2} \max A + 3", r"\frac{3}{2} \max A + 3", False),
    (r"\lfloor x \rfloor + 2", r"\lfloor y \rfloor + 2", False),
    (r"\sum_{k=1}^{3} k", "6", True),
    (r"\sqrt{x^2}", "x", False),
    (r"\lfloor 2.5 \rfloor", "3", False),
]


@pytest.mark.parametrize(("gold", "candidate"), SAME + MORE_SAME)
def test_equal_answers_are_recognised_without_algebra(gold: str, candidate: str):
    assert decide(gold, candidate) is True
    assert decide(candidate, gold) is True


@pytest.mark.parametrize(("gold", "candidate"), DIFFERENT + MORE_DIFFERENT)
def test_different_answers_are_told_apart_without_algebra(gold: str, candidate: str):
    assert decide(gold, candidate) is False
    assert decide(candidate, gold) is False


@pytest.mark.parametrize(("gold", "candidate", "expected"), UNDECIDED)
def test_algebra_decides_the_rest(gold: str, candidate: str, expected: bool):
    assert decide(gold, candidate) is None
    assert is_equivalent(gold, candidate) is expected
