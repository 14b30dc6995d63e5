"""A data set's card says what its labels are, and shows texts of data without meaning anything."""

import polars as pl
import pytest
from huggingface_hub import DatasetCard

from cpmi_dagster.exports.dataset_card import DatasetFacts, Origin, dataset_card, statistics
from cpmi_dagster.exports.licences import licence_of

LABELLED = pl.DataFrame(
    {
        "question_id": ["q1", "q1", "q2"],
        "task": ["GSM8K", "GSM8K", "<b>![x](//evil.example)"],
        "steps": [["a", "b"], ["c"], ["d", "e", "f"]],
        "soft_labels": [[0.9, 0.2], [0.5], [0.6, 0.7, 0.8]],
    }
)
HUB = Origin("gold answers", "openai/gsm8k", "e53f", licence_of("openai/gsm8k", "datasets"))
SHEPHERD = Origin("questions", "peiyi9979/Math-Shepherd", "", licence_of("peiyi9979/Math-Shepherd", "datasets"))
FILE = Origin("questions", "rows.jsonl", "", licence_of("rows.jsonl", "datasets", is_on_hub=False))


def card(reward_type: str = "cpmi", is_probability: bool = False, sources: tuple[Origin, ...] = (HUB,)) -> str:
    facts = DatasetFacts(
        name="mine",
        profile="toy",
        reward_type=reward_type,
        form="trl",
        threshold=0.5,
        is_probability=is_probability,
        version="0.1.0",
        models={"labeler": ["Qwen/Qwen3-8B-Base@49e3"]},
        method={"seed": "0"},
        sources=sources,
    )
    return dataset_card(facts, LABELLED)


def test_statistics_count_trajectories_steps_and_right_ones():
    counted = statistics(LABELLED, 0.5)
    assert (counted["trajectories"], counted["questions"], counted["steps"]) == ("3", "2", "6")
    assert counted["steps that the hard labels call right"] == "83.3%"
    assert counted["trajectories without a wrong step"] == "66.7%"


def test_texts_of_data_are_shown_as_they_are():
    assert "](//evil.example)" not in card() and "<b>" not in card()


@pytest.mark.parametrize(
    ("reward_type", "is_probability", "words"),
    [
        ("cpmi", False, "log-probabilities"),
        ("mc", True, "A language model completes the solution after each step"),
        ("mc_prover", True, "A second language model, the prover, completes the solution after each step"),
        ("cpmi_prover", False, "the prover's log-probabilities"),
        ("pav", False, "the prover, completes it likewise"),
        ("pav_merge2", False, "completes the solution after the first steps"),
        ("other_gold", False, "a control, which a method of labeling has to beat"),
        ("math_shepherd", True, "which came with the source"),
        ("cpmi_merge1", False, "The rewards of the first steps (1) are those of `mc`"),
        ("my_judge", True, "given by the exporter under the name `my_judge`"),
    ],
)
def test_the_card_says_what_the_labels_are(reward_type, is_probability, words):
    text = card(reward_type, is_probability)
    assert words in text
    assert ("are probabilities and are the soft labels" in text) == is_probability
    assert ("robust z-score" in text) != is_probability


@pytest.mark.parametrize(
    ("sources", "licence", "words"),
    [
        ((HUB,), "mit", "| openai/gsm8k | e53f | mit |"),
        ((HUB, SHEPHERD), None, "its page states none"),
        ((HUB, FILE), None, "local files of the exporter: not known here"),
    ],
)
def test_a_licence_is_stated_for_the_whole_where_all_sources_share_it(sources, licence, words):
    text = card(sources=sources)
    assert DatasetCard(text, ignore_metadata_errors=False).data.license == licence
    assert words in text
