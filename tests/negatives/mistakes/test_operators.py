"""One sign, operator, function or relation of an answer changes; signs that mean something else stay."""

import pytest

from cpmi_dagster.negatives.mistakes.operators import propose_operator_changes, propose_sign_changes


@pytest.mark.parametrize(
    ("gold", "expected"),
    [
        ("3x^{2}-x+1", {"3x^{2}+x+1", "3x^{2}-x-1"}),
        (r"\sin^{2} x", {r"\cos^{2} x"}),
        (r"\begin{pmatrix} -1 \\ 2 \end{pmatrix}", set()),
        (r"-2 \text{ or } -12", set()),
        (r"x \le -2", {r"x \ge -2", "x < -2"}),
        (r"-80\leq g(x)\leq 82", {r"-80< g(x)\leq 82", r"-80\leq g(x)< 82"}),
        (r"(-\infty,2)\cup(3,4)", set()),
    ],
)
def test_operators_change(gold: str, expected: set[str]):
    assert {" ".join(proposal.answer.split()) for proposal in propose_operator_changes(gold)} == expected


@pytest.mark.parametrize(
    ("gold", "expected"),
    [
        ("-4", {"4"}),
        ("(3,-1)", {"(-3,-1)", "(3,1)"}),
        (r"k = \frac{-33}{2}", {r"k = \frac{33}{2}"}),
        ("(0,0.5)", {"(0,-0.5)"}),
        (r"[2,\infty)", {r"[-2,\infty)"}),
        ("f(4-x)", {"-f(4-x)"}),
        (r"\log\left(\frac{3}{2}\right)", set()),
        (r"\sqrt[3]{2}", {r"-\sqrt[3]{2}"}),
        ("3:5", set()),
        ("0", set()),
    ],
)
def test_signs_change(gold: str, expected: set[str]):
    assert {proposal.answer for proposal in propose_sign_changes(gold)} == expected
