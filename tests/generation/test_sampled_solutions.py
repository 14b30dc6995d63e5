"""What the policy is asked, and what becomes of what it writes."""

import polars as pl
import pytest
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from cpmi_dagster.contracts.tables import Questions, SampledSolutions
from cpmi_dagster.errors import ModelError
from cpmi_dagster.generation.solutions import chat_prompt, solution_rows
from cpmi_dagster.models.language_models import load_tokenizer, model_folder

CHAT = (
    "{{ bos_token or '' }}{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}<assistant>"
)
QUESTION = {
    "question_number": 7,
    "task": "",
    "defect": None,
    "source_id": "a7",
    "question": "2 + 3?",
    "gold_answer": "5",
    "split": None,
    "excerpt": None,
}
SOLUTION = {
    "question_number": 7,
    "solution": 2,
    "text": "I add.\n\n2 + 3 = 5.\nThe answer is: 5",
    "generated_tokens": 12,
    "truncated": False,
}


def rows(change: dict, steps="auto") -> list[dict]:
    solution = pl.DataFrame([SOLUTION | change], schema=SampledSolutions.create_empty().schema)
    return solution_rows(pl.DataFrame([QUESTION], schema=Questions.create_empty().schema), solution, steps).to_dicts()


@pytest.fixture
def tokenizer():
    return load_tokenizer(model_folder("miniature:labeler"))


@pytest.mark.parametrize(("by_itself", "start"), [("<|pad|> $A", "<user>"), ("$A", "<|pad|><user>")])
def test_a_chat_model_is_asked_by_its_template_without_the_start_that_engines_add(tokenizer, by_itself, start):
    backend = tokenizer.backend_tokenizer
    backend.post_processor = TemplateProcessing(single=by_itself, special_tokens=[("<|pad|>", 1)])
    own = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<|pad|>", chat_template=CHAT)
    asked = chat_prompt("mine", own)("2 + 3?\n\nSolution: none yet")
    assert asked.startswith(f"{start}You are a careful math solver.")
    assert asked.endswith("Problem:\n2 + 3?\n\nSolution: none yet<assistant>")


def test_a_model_without_a_chat_template_is_refused(tokenizer):
    with pytest.raises(ModelError, match="the tokenizer of `mine` has no chat template; leave out `chat`"):
        chat_prompt("mine", tokenizer)


def test_a_solution_is_a_row_with_its_steps_number_and_id():
    (row,) = rows({})
    assert (row["row_number"], row["source_id"], row["gold_answer"]) == (7002, "a7/2", "5")
    assert row["steps"] == ["I add.", "2 + 3 = 5.\nThe answer is: 5"]
    assert rows({}, steps="line")[0]["steps"] == ["I add.", "2 + 3 = 5.", "The answer is: 5"]


@pytest.mark.parametrize(
    ("change", "defect"),
    [
        ({"truncated": True}, "the policy's solution was cut at 12 tokens; raise `max_new_tokens`"),
        (
            {"truncated": True, "generated_tokens": 0, "text": ""},
            "the question leaves the policy no room for a solution; lower `max_new_tokens`",
        ),
        ({"text": " \n"}, "the policy wrote nothing"),
    ],
)
def test_what_is_no_solution_has_its_reason(change, defect):
    assert [(row["source_id"], row["defect"]) for row in rows(change)] == [("a7/2", defect)]


def test_a_question_that_cannot_be_read_is_one_row_with_its_reason():
    unread = QUESTION | {"excerpt": "{'a': 1}", "question": None, "defect": "it has no question"}
    questions = pl.DataFrame([unread], schema=Questions.create_empty().schema)
    (row,) = solution_rows(questions, SampledSolutions.create_empty(), "auto").to_dicts()
    assert (row["row_number"], row["excerpt"], row["defect"]) == (7000, "{'a': 1}", "it has no question")
