"""Alignment of questions to reference problems."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.alignment import (
    AMBIGUOUS,
    NO_MATCH,
    ReferenceIndex,
    align_questions,
    align_trajectories,
    general_reason,
    review_alignment,
)
from cpmi_dagster.trajectories.identifiers import shard_key
from cpmi_dagster.trajectories.question_key import question_id
from cpmi_dagster.trajectories.rows import number_rows

REFERENCES = pl.DataFrame(
    {
        "source": ["math"] * 8,
        "split": ["train"] * 8,
        "problem_id": [str(number) for number in range(8)],
        "question": [
            r"Find $\frac{1}{2} + x$ if $x = 3$.",
            "How many red pens does Ann have if she buys 3 pens and 12 pads of the same colour?",
            "Same text, two answers",
            "Same text, two answers",
            "What is $3-x$ when $x=10$?",
            "A particle moves at $(2t, 4t)$. Find the speed, measured in unit of distance per unit of time.",
            "What is nothing?",
            r"What is $\frac{1}{3}$ of one? [asy] draw(1); [/asy]",
        ],
        "answer": ["3.5", "4", "1", "2", "-7", r"2\sqrt{5}", "", r"\frac{1}{3}"],
    }
)


def align(*questions: str) -> list[tuple]:
    return align_questions(pl.DataFrame({"question": questions}), REFERENCES).rows()


@pytest.mark.parametrize(
    ("question", "row", "kind"),
    [
        (r"Find $\frac{1}{2} + x$ if $x = 3$.", 0, "exact"),
        ("Find  $\\frac{1}{2}\u00a0+ x$ if\n$x = 3$.", 0, "whitespace"),
        (r"Find $\dfrac12+\,x$ if $x=3$", 0, "normalized"),
        (r"find \(\frac{1}{2}+x\) if \(x=3\).", 0, "normalized"),
        (r"What is $\tfrac13$ of one?", 7, "normalized"),
        (REFERENCES["question"][5].replace("unit of distance", "units of distance"), None, None),
        (r"Find $\frac{1}{2} - x$ if $x = 3$.", None, None),
        (r"Find $\frac{1}{2} + x$ if $x = 4$.", None, None),
        (REFERENCES["question"][1].replace("red", "blue"), None, None),
        (REFERENCES["question"][1].replace("3 pens and 12 pads", "12 pens and 3 pads"), None, None),
        (REFERENCES["question"][1].replace("pens", "pins"), None, None),
        ("What is $3x$ when $x=10$?", None, None),
        ("Same text, two answers", None, None),
        ("Same  text, two answers", None, None),
        ("", None, None),
    ],
)
def test_a_question_matches_only_its_own_problem(question: str, row: int | None, kind: str | None):
    assert align(question) == [(row, kind)]


SAME_PROBLEM = [
    ("Let $a, b, c$ be roots.", "Let $a,$ $b,$ and $c$ be roots."),
    (r"Is $n \le 3$ or $n\ge5$? It's odd.", "Is $n ≤ 3$ or $n ≥ 5$? It’s odd."),
    (r"What is the $5^{\text{th}}$ of $n$?", "What is the 5-th of n?"),
    (r"Find $f'(30^\circ)$.", r"Find \(f^{\prime}(30^{\circ})\)"),
    ("Find x² if the area is 2½ m².", r"Find $x^2$ if the area is $2\frac12$ m$^2$."),
    ("How many of 1,000 are odd?", r"How many of $1{,}000$ are odd"),
    (r"Solve $3n \equiv 6 \pmod{22}$.", "Solve 3n ≡ 6 (mod 22)."),
    ("Is $f$ \"even\" or 'odd'?", "Is $f$ ``even'' or “odd”?"),
    ("What is the area? [asy] draw(a); [/asy]", "What is the area?"),
    (r"Which hold?\n- It is $1$.\n- It is $2$.", "Which hold?\n\n$\\bullet$ It is $1$.\n\n$\\bullet$ It is $2$."),
]


@pytest.mark.parametrize(("question", "reference"), SAME_PROBLEM + [(two, one) for one, two in SAME_PROBLEM])
def test_wording_and_typesetting_do_not_hide_a_problem(question: str, reference: str):
    found = align_questions(pl.DataFrame({"question": [question]}), pl.DataFrame({"question": [reference]}))
    assert found["reference_row"].to_list() == [0]


ANOTHER_PROBLEM = [
    ("Ann gives Bob 3 of her 12 hats. How many has she?", "Bob gives Ann 3 of her 12 hats. How many has she?"),
    ("Ann has 3 more hats than Bob, who has 12.", "Ann has 3 less hats than Bob, who has 12."),
    ("How often can 3 of 12 books be next to each other?", "How often can 3 of 12 books not be next to each other?"),
    ("A rope of 3 feet is cut in 12. How long are they?", "A rope of 3 inches is cut in 12. How long are they?"),
    ("After lunch Ann ate 3 of 12, before it none.", "Before lunch Ann ate 3 of 12, after it none."),
    (r"How many $n$ have $3 < n \le 12$ as a solution?", r"How many $n$ have $3 < n \ge 12$ as a solution?"),
    (r"Compute $\sin 30^\circ$ exactly.", r"Compute $\cos 30^\circ$ exactly."),
    (r"Compute $\sin 30^\circ$ exactly.", r"Compute $\sin 30$ exactly."),
    ("Compute the value of $3a + 2$ at this place.", "Compute the value of $3 + 2$ at this place."),
    ("Compute the value of $.5x$ at this place.", "Compute the value of $5x$ at this place."),
    ("Compute the value of $x²$ at this place.", "Compute the value of $x2$ at this place."),
    ("Ann ate 1 1/2 of the plums.", "Ann ate 11/2 of the plums."),
    ("Ann uses 1 and a half cups of the milk.", "Ann uses 1 half cups of the milk."),
    ("Ann has few hats, how many of the 5 are red?", "Ann has a few hats, how many of the 5 are red?"),
    ("Compute $f(x, y)$ at this place.", "Compute $f(xy)$ at this place."),
    ("Compute the ratio $a:b$ at this place.", "Compute the ratio $ab$ at this place."),
    ("Compute $f''(x)$ at this place.", "Compute $f(x)$ at this place."),
    ("Compute the length of $A'B'$ at this place.", "Compute the length of $AB$ at this place."),
    (r"Compute $\Delta + 3$ at this place.", r"Compute $\delta + 3$ at this place."),
    ("Compute $A + a$ at this place.", "Compute $a + a$ at this place."),
    ("Compute the mean of α and β.", "Compute the mean of β and α."),
    (r"Compute $0.\overline{3}$ at this place.", r"Compute $0\overline{3}$ at this place."),
    ("Compute $5!$ at this place.", "Compute $5$ at this place."),
    ("Compute the interval $(2,100)$ at this place.", "Compute the interval $(2100)$ at this place."),
    (r"Find \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}.", r"Find \begin{pmatrix} 1 & 2 & 3 & 4 \end{pmatrix}."),
    ("Find the product of $x$ and $y$, and more.", "Find the product of $xy$, and more."),
    ("Find all $x$ with $x^2=4$. Enter the sum of all solutions, separated by commas.", "Find all $x$ with $x^2=4$."),
    ("Find all $x$. Enter your answers, separated by commas.", "Find all $x$. Enter your answer in the form $a+bi$."),
    ("What is the area? [asy] draw(5); [/asy]", "What is the  area?! [asy] draw(6); [/asy]"),
]


@pytest.mark.parametrize(("question", "reference"), ANOTHER_PROBLEM + [(two, one) for one, two in ANOTHER_PROBLEM])
def test_another_problem_is_never_taken_for_the_reference(question: str, reference: str):
    alone = align_questions(pl.DataFrame({"question": [question]}), pl.DataFrame({"question": [reference]}))
    assert alone.row(0) == (None, None)


def test_rows_come_back_in_order_however_often_a_question_repeats():
    rows = align("What is $3-x$ when $x=10$?", "unknown", "What is $3-x$ when $x=10$?")
    assert [row for row, _ in rows] == [4, None, 4]


def parsed_rows(*questions: str) -> pl.DataFrame:
    rows = [{"question": question, "steps": ["So."], "labels": [True], "task": "MATH"} for question in questions]
    return number_rows(rows, first=10, shards=1)


def test_every_parsed_row_is_aligned_or_rejected_with_its_reason():
    parsed = parsed_rows("What is $3-x$ when $x=10$?", "Who?", "What is nothing?", "Same text, two answers")
    trajectories, rejected = align_trajectories(parsed, ReferenceIndex(REFERENCES))
    assert trajectories["trajectory_id"].to_list() == ["t000000010"]
    assert trajectories["gold_answer"].to_list() == ["-7"]
    assert trajectories["match_source"].to_list() == ["math/train/4"]
    assert rejected.select("row_number", "stage", "reason").rows() == [
        (11, "align", NO_MATCH),
        (12, "answer", "the reference problem math/train/6 has an empty gold answer"),
        (13, "align", AMBIGUOUS),
    ]


def test_a_row_with_a_gold_answer_needs_no_reference():
    asked = "What is $3-x$ when $x=10$?"
    parsed = parsed_rows(asked, "Who?", asked, "Bob?").with_columns(
        task=pl.Series(["MATH", "", "", ""]),
        gold_answer=pl.Series(["8", "Ann", None, "Bob"]),
        source_id=pl.Series(["a7", None, "b1", None]),
        split=pl.Series(["test", None, None, None]),
    )
    mixed, unmatched = align_trajectories(parsed, ReferenceIndex(REFERENCES))
    assert mixed["gold_answer"].to_list() == ["8", "Ann", "-7", "Bob"] and mixed["task"][2] == "MATH"
    assert unmatched.is_empty()
    trajectories, rejected = align_trajectories(parsed[:3], ReferenceIndex(REFERENCES.clear()))
    own = trajectories.select("task", "gold_answer", "match_source", "match_kind", "source_id")
    assert own.rows() == [
        ("MATH", "8", "given/test/a7", "given", "a7"),
        ("OWN", "Ann", "given/train/11", "given", None),
        ("OWN", None, "", "none", "b1"),
    ]
    assert trajectories["question_id"].to_list() == [question_id(text) for text in parsed["question"][:3]]
    assert rejected.is_empty()


@given(question=st.text(), shards=st.integers(1, 99))
def test_a_shard_is_one_of_the_partitions(question: str, shards: int):
    assert shard_key(question_id(question), shards) in {f"{shard:03d}" for shard in range(shards)}


@given(question=st.text(alphabet=r"ab1 \{}$^_'.,()-[]frcsqt", max_size=40))
def test_no_question_breaks_alignment(question: str):
    assert len(align(question)) == 1


SENTENCES = st.lists(
    st.sampled_from(["Find", "hats", r"$\frac{1}{2}$", "3", "-", "+", "<", "x", "if", "Ann", "12", "=", "(", ")", "."]),
    min_size=2,
    max_size=12,
).map(" ".join)


@given(questions=st.lists(SENTENCES, min_size=1, max_size=6, unique=True))
def test_a_question_aligns_to_itself(questions: list[str]):
    frame = pl.DataFrame({"question": questions, "answer": [str(number) for number in range(len(questions))]})
    found = align_questions(frame, frame)
    for number, (question, (row, kind)) in enumerate(zip(questions, found.rows(), strict=True)):
        has_words = any(map(str.isalnum, question))
        assert (row, kind) == (number, "exact") or (not has_words and (row, kind) == (None, None))


@given(question=SENTENCES.filter(lambda text: any(map(str.isalnum, text))), added=st.data())
def test_blanks_of_any_kind_and_compatible_characters_keep_the_match(question: str, added: st.DataObject):
    blank = st.sampled_from(["  ", "\n", "\u00a0", " \u200b", "\u2028", "\ufeff \t"])
    changed = "".join(added.draw(blank) if character == " " else character for character in question)
    wide = "".join(
        chr(ord(character) + 0xFEE0) if added.draw(st.booleans()) and character in "Finx123+=<" else character
        for character in changed
    )
    references = pl.DataFrame({"question": [question]})
    assert align_questions(pl.DataFrame({"question": [wide]}), references)["reference_row"].to_list() == [0]


@given(
    # a sign before the first word is the mark of a list
    question=SENTENCES.filter(lambda text: any(map(str.isalnum, text)) and not text.lstrip().startswith(tuple("-+*"))),
    place=st.integers(0, 200),
    other=st.sampled_from("0123456789+-<>=*/"),
)
def test_one_changed_digit_or_sign_never_matches(question: str, place: int, other: str):
    places = [number for number, character in enumerate(question) if character in "0123456789+-<>=*/"]
    if not places:
        return
    at = places[place % len(places)]
    changed = question[:at] + other + question[at + 1 :]
    found = align_questions(pl.DataFrame({"question": [changed]}), pl.DataFrame({"question": [question]}))
    assert (found["reference_row"].to_list() == [0]) == (changed == question)


@given(order=st.permutations(range(8)), asked=st.permutations(range(8)))
def test_the_order_of_references_and_of_questions_does_not_matter(order: list[int], asked: list[int]):
    questions = [question.replace("$", " ") for question in REFERENCES["question"]]
    expected = align_questions(pl.DataFrame({"question": questions}), REFERENCES).rows()
    found = align_questions(pl.DataFrame({"question": [questions[number] for number in asked]}), REFERENCES[order])
    translated = [(None if row is None else order[row], kind) for row, kind in found.rows()]
    assert translated == [expected[number] for number in asked]


def test_of_references_with_one_text_and_one_answer_the_same_is_taken_in_any_order():
    twins = pl.DataFrame({"question": ["How many?"] * 2, "answer": ["0.5", r"\frac12"], "problem_id": ["1", "2"]})
    asked = pl.DataFrame({"question": ["How  many?"]})
    assert [align_questions(asked, each)["reference_row"][0] for each in (twins, twins[::-1])] == [0, 1]


def test_the_review_counts_every_row_once_and_shows_where_to_look():
    parsed = parsed_rows("What is $3-x$ when $x=10$?", *["Who?"] * 2, "What is nothing?")
    kinds, rejections = review_alignment(*align_trajectories(parsed, ReferenceIndex(REFERENCES))).values()
    assert kinds.rows() == [("exact", 1, 1, 0.25)]
    assert rejections.rows() == [
        ("align", NO_MATCH, 2, 0.5, "Who?"),
        ("answer", "the reference problem … has an empty gold answer", 1, 0.25, "What is nothing?"),
    ]


@pytest.mark.parametrize(
    ("reason", "general"),
    [
        ("step 3 of 5 is empty", "step … of … is empty"),
        ("`value` contains '?', which is neither `+` nor `-`", "`value` contains …, which is neither `+` nor `-`"),
        ("no `Step 1:` header and no question mark", "no `Step 1:` header and no question mark"),
        ('text after the last `ки` marker: "it\'s 4"', "text after the last `ки` marker: …"),
        (NO_MATCH, NO_MATCH),
    ],
)
def test_reasons_are_the_same_but_for_what_belongs_to_a_row(reason: str, general: str):
    assert general_reason(reason) == general
