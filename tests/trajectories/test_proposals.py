"""Fields are proposed by what they are called and hold; where that is not clear, none is."""

import pytest

from cpmi_dagster.errors import SourceError
from cpmi_dagster.trajectories.rows import number_rows

ASKED, WORKED = "How many are 3 and 4?", "We add the two.\nThe answer is 7"
SAID = [{"from": "human", "value": ASKED}, {"from": "gpt", "value": WORKED}]


@pytest.mark.parametrize(
    ("row", "maps"),
    [
        ({"instruction": ASKED, "input": "", "output": WORKED}, "question=instruction solution=output"),
        ({"questionText": ASKED, "modelResponse": WORKED, "groundTruth": "7"}, "question=questionText solution=modelR"),
        ({"meta": {"question": ASKED}, "gen": {"output": WORKED}}, "question=meta.question solution=gen.output"),
        ({"question": ASKED, "answer": f"{WORKED}\n#### 7"}, "solution=answer"),
        ({"talk": SAID, "system": "You are a helpful assistant.", "gold_answer": "7"}, "messages=talk"),
        ({"system_prompt": "You are good.", "problem_id": "a 7", "b": WORKED}, "question=FIELD solution=FIELD"),
    ],
)
def test_a_file_of_another_kind_gets_the_maps_that_its_fields_are_fit_for(row, maps):
    with pytest.raises(SourceError) as refusal:
        number_rows([row], first=0, shards=1)
    expected = " ".join(f"--map {each}" for each in maps.split())
    assert f"name its fields, such as {expected}" in str(refusal.value)
    assert all(name in str(refusal.value) for name in row)
