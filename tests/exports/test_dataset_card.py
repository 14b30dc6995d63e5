"""A data set's card says what its labels are, and shows texts of data without meaning anything."""

import polars as pl
import pytest
from huggingface_hub import DatasetCard

from cpmi_dagster.exports.cards import dataset_card
from cpmi_dagster.exports.rows import UNJUDGED, choose_threshold
from cpmi_dagster.files.text import in_markdown
from cpmi_dagster.rewards.registry import REWARD_TYPES

LABELLED = pl.DataFrame(
    {
        "trajectory_id": ["t1", "t2", "t3"],
        "question_id": ["q1", "q1", "q2"],
        "steps": [["a", "b"], ["c"], ["d", "e", "f"]],
        "soft_labels": [[0.9, 0.2], [0.5], [0.6, 0.7, 0.8]],
        "rewards": [[0.9, -0.2], [0.1], [0.2, 0.3, 0.4]],
    }
)
EVIL = "<b>![x](//evil.example)"


def card(reward_type: str = "cpmi", is_probability: bool = False, name: str = "mine") -> str:
    threshold = choose_threshold(LABELLED, reward_type, is_probability, 0.0, UNJUDGED)
    made_with = {"labeler": "Qwen/Qwen3-8B-Base@49e3", "profile": EVIL, EVIL: "e53f"}
    return dataset_card(LABELLED, name, "trl", reward_type, is_probability, threshold, made_with)


def test_the_card_opens_with_what_the_hard_labels_call_right_and_shows_texts_of_data_as_they_are():
    _, _, body = card().partition("\n# mine\n\n")
    assert body.startswith("Hard labels call 83.3% of the steps right: those with a reward of at least 0, the number")
    for part in ("| trajectories | 3, of 2 questions |", "| steps | 6; ", "| labeler | Qwen/Qwen3-8B-Base@49e3 |"):
        assert part in body
    assert "](//evil.example)" not in body and "<b>" not in body
    data = DatasetCard(card(name='a: "b"'), ignore_metadata_errors=False).data
    assert data.to_dict()["pretty_name"] == 'a: "b"'


@pytest.mark.parametrize("entry", REWARD_TYPES.values(), ids=lambda entry: entry.name)
def test_every_reward_type_says_in_a_sentence_what_it_is(entry):
    text = card(entry.name, entry.is_probability)
    assert entry.meaning.endswith(".") and in_markdown(entry.meaning) in text
    assert ("are probabilities, and are the soft labels" in text) == entry.is_probability
