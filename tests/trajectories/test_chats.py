"""Chats say the same in whatever shape they are written; what is no question and solution is refused by its name."""

import json

import pytest

from cpmi_dagster.trajectories.math_shepherd import Trajectory
from cpmi_dagster.trajectories.rows import Defect, Reading, Row, read_row

QUESTION, SOLUTION, STEPS = "1 + 1?", "I add.\n\nSo 2.", ("I add.", "So 2.")
ASKED = {"role": "user", "content": QUESTION}


def read(row: Row) -> Trajectory:
    found = read_row(row)
    assert isinstance(found, Trajectory), found
    return found


def turns(*said: tuple[str, object]) -> list[dict]:
    return [{"role": name, "content": text} for name, text in said]


@pytest.mark.parametrize(
    "messages",
    [
        turns(("user", QUESTION), ("assistant", SOLUTION)),
        turns(("developer", "Be good."), ("user", QUESTION), ("model", [{"type": "text", "text": SOLUTION}])),
        [{"from": "Human", "value": QUESTION}, {"from": "ChatGPT", "value": SOLUTION}],
        [ASKED, {"role": "assistant", "reasoning_content": "I add.", "content": "So 2."}],
        [ASKED, {"role": "assistant", "reasoning": SOLUTION, "content": None}],
        [ASKED, {"role": "assistant", "content": f"<think>{SOLUTION}", "reasoning_content": SOLUTION}],
    ],
)
def test_a_chat_is_read_in_every_shape(messages):
    chat = read({"messages": messages})
    assert (chat.question, tuple(step.removeprefix("<think>") for step in chat.steps)) == (QUESTION, STEPS)
    for written in (messages, repr(messages), json.dumps(messages)):
        assert read({"conversations": written}) == chat


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        (turns(("human", "a"), ("gpt", "b"), ("observation", "c")), "(or gpt), and has human, gpt, observation; give"),
        ([], "and has none"),
        ([ASKED, {"role": "assistant", "content": ""}], "the message of the assistant is empty"),
        (turns(("user", [{"type": "image_url"}]), ("assistant", "b")), "is `image_url`; it must"),
    ],
)
def test_what_is_no_question_and_solution_is_refused_by_its_name(messages, reason):
    found = read_row({"conversations": messages})
    assert isinstance(found, Defect)
    assert found.reason.startswith("`conversations`: ") and reason in found.reason


def test_a_question_or_solution_may_be_messages_of_one_turn_or_a_list_of_one_text():
    asked, said = turns(("system", "Be good."), ("user", QUESTION)), turns(("assistant", SOLUTION))
    for row in (
        {"prompt": asked, "completion": said},
        {"prompt": repr(asked), "response": SOLUTION},
        {"question": [QUESTION], "solution": [SOLUTION]},
        {"question": repr([QUESTION]), "steps": STEPS},
    ):
        assert (read(row).question, read(row).steps) == (QUESTION, STEPS)
    alone = read_row({"prompt": asked}, Reading(of_questions=True))
    assert isinstance(alone, Trajectory) and alone.question == QUESTION
    assert read({"question": "[1, 2] has which sum?", "steps": STEPS}).question == "[1, 2] has which sum?"
