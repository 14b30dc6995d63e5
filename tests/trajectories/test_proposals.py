"""Fields are proposed by what they are called and hold; where that is not clear, none is."""

import pytest

from cpmi_dagster.errors import SourceError
from cpmi_dagster.trajectories.proposals import proposed_fields
from cpmi_dagster.trajectories.rows import Reading, number_rows

ASKED, WORKED = "How many are 3 and 4?", "We add the two.\nThe answer is 7"
SAID = [{"from": "human", "value": ASKED}, {"from": "gpt", "value": WORKED}]


@pytest.mark.parametrize(
    ("row", "maps"),
    [
        ({"instruction": ASKED, "input": "", "output": WORKED}, "question=instruction solution=output"),
        ({"questionText": ASKED, "modelResponse": WORKED, "groundTruth": "7"}, "question=questionText solution=modelR"),
        ({"original_question": ASKED, "query": ASKED, "response": WORKED}, "question=query"),
        (
            {"meta": {"question": ASKED}, "gen": {"output": WORKED}},
            "question=meta.question solution=gen.output",
        ),
        ({"question": ASKED, "answer": f"{WORKED}\n#### 7"}, "solution=answer"),
        ({"question": ASKED, "answer": "7"}, "solution=FIELD"),
        ({"talk": SAID, "system": "You are a helpful assistant.", "gold_answer": "7"}, "messages=talk"),
        ({"src": [ASKED], "responses": [WORKED], "gold_answer": "7"}, "question=FIELD solution=FIELD"),
        ({"system_prompt": "You are good.", "problem_id": "a 7", "b": WORKED}, "question=FIELD solution=FIELD"),
        ({"input": SAID[:1], "output": WORKED, "reasoning": "on"}, "question=input solution=output"),
    ],
)
def test_a_file_of_another_kind_gets_the_maps_that_its_fields_are_fit_for(row, maps):
    with pytest.raises(SourceError) as refusal:
        number_rows([row], first=0, shards=1)
    expected = " ".join(f"--map {each}" for each in maps.split())
    assert f"name its fields, such as {expected}" in str(refusal.value)
    assert all(name in str(refusal.value) for name in row)


def test_maps_that_were_given_are_given_again_with_the_new_ones():
    with pytest.raises(
        SourceError, match=r"has columns query, response, a; .*--map gold_answer=a --map question=query"
    ):
        reading = Reading({"gold_answer": "a"})
        number_rows([reading.named({"query": ASKED, "response": WORKED, "a": 7})], first=0, shards=1, reading=reading)


@pytest.mark.parametrize(
    ("rows", "proposed"),
    [
        ([{"answer": "7", "uid": "a"}, {"answer": "8", "uid": "b"}], {"gold_answer": "answer", "id": "uid"}),
        ([{"reward_model": {"style": "rule", "ground_truth": 7}}], {"gold_answer": "reward_model.ground_truth"}),
        ([{"answer": f"{WORKED}\n#### 7"}], {"gold_answer": "answer"}),
        ([{"question_id": 1}, {"question_id": 1}], {}),
        ([{"final_answer_correct": True, "answer_id": "7", "model_answer": "8", "answer_type": "number"}], {}),
        ([{"valid": "a", "paid": 3, "index": 1.5, "answer": ["7"], "target": f"{ASKED}\n{ASKED}"}], {}),
    ],
)
def test_a_gold_answer_is_readable_and_an_id_differs_from_row_to_row(rows, proposed):
    assert proposed_fields(rows, ["gold_answer", "id"]) == proposed
