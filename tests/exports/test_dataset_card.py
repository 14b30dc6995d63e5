"""A data set's card says what its labels are, and shows texts of data without meaning anything."""

import re

import polars as pl
import pytest
from huggingface_hub import DatasetCard

from cpmi_dagster.exports.dataset_card import DatasetFacts, Origin, dataset_card, statistics
from cpmi_dagster.exports.hard_labels import hard_labels, parse_rule
from cpmi_dagster.exports.licences import licence_of
from cpmi_dagster.files.text import in_markdown
from cpmi_dagster.rewards.registry import CORPUS_LABELS, REWARD_TYPES

LABELLED = pl.DataFrame(
    {
        "trajectory_id": ["t1", "t2", "t3"],
        "question_id": ["q1", "q1", "q2"],
        "task": ["GSM8K", "GSM8K", "<b>![x](//evil.example)"],
        "steps": [["a", "b"], ["c"], ["d", "e", "f"]],
        "soft_labels": [[0.9, 0.2], [0.5], [0.6, 0.7, 0.8]],
        "rewards": [[0.9, -0.2], [0.1], [0.2, 0.3, 0.4]],
    }
)
HUB = Origin("gold answers", "openai/gsm8k", "e53f", licence_of("openai/gsm8k", "datasets"))
SHEPHERD = Origin("questions", "peiyi9979/Math-Shepherd", "", licence_of("peiyi9979/Math-Shepherd", "datasets"))
FILE = Origin("questions", "rows.jsonl", "", licence_of("rows.jsonl", "datasets", is_on_hub=False))


def card(
    reward_type: str = "cpmi",
    is_probability: bool = False,
    sources: tuple[Origin, ...] = (HUB,),
    threshold: str | None = None,
) -> str:
    facts = DatasetFacts(
        name="mine",
        profile="toy",
        form="trl",
        hard=hard_labels(LABELLED, reward_type, is_probability, parse_rule(threshold)),
        version="0.1.0",
        models={"labeler": ["Qwen/Qwen3-8B-Base@49e3"]},
        method={"seed": "0"},
        sources=sources,
    )
    return dataset_card(facts, LABELLED)


def test_statistics_count_trajectories_steps_and_right_ones():
    counted = statistics(LABELLED, hard_labels(LABELLED, "cpmi", is_probability=False))
    assert (counted["trajectories"], counted["questions"], counted["steps"]) == ("3", "2", "6")
    assert counted["steps that the hard labels call right"] == "83.3%"
    assert counted["trajectories whose steps the hard labels all call right"] == "66.7%"


def test_the_card_opens_with_what_the_hard_labels_call_right_and_shows_texts_of_data_as_they_are():
    _, _, body = card().partition("\n# mine\n\n")
    assert body.startswith("Hard labels call 83.3% of the steps right: those whose reward is at least 0, since it is a")
    assert "Hard labels call 66.7% of the steps right: those whose reward is at least 0.2, the quan" in card(
        threshold="quantile:0.3"
    )
    assert "](//evil.example)" not in card() and "<b>" not in card()


@pytest.mark.parametrize(
    ("reward_type", "is_probability", "words"),
    [
        ("cpmi", False, "A shift is the log-probability of an answer"),
        ("gold_only", False, "The gold answer's shift alone"),
        ("mc", True, "The share of the policy's completions of a prefix that reach the gold answer"),
        ("mc_hard", True, "1 where any completion by the policy reaches the gold answer"),
        ("pav", False, "how much the step changes the prover's MC"),
        ("cpmi_merge2", False, "about half of the steps after the first are above 0.5"),
        ("step_surprisal", False, "a control that methods of labeling have to beat"),
        ("math_shepherd", True, "The labels are the source's."),
        ("cpmi_merge1", False, "The rewards of the first steps (1) are those of `mc`"),
        ("my_judge", True, "given by the exporter under the name `my_judge`"),
    ],
)
def test_the_card_says_what_the_labels_are(reward_type, is_probability, words):
    text = card(reward_type, is_probability)
    assert words in text
    assert ("are probabilities and are the soft labels" in text) == is_probability
    assert ("robust z-score" in text) != is_probability
    # labels of the exporter's own are not called a method's
    assert reward_type != "my_judge" or "estimates by a method" not in text


@pytest.mark.parametrize("entry", REWARD_TYPES.values(), ids=lambda entry: entry.name)
def test_every_reward_type_says_in_a_sentence_what_it_is(entry):
    text = card(entry.name, entry.is_probability)
    assert entry.meaning.endswith(".") and in_markdown(entry.meaning) in text
    assert ("A shift is" in text) == entry.needs.scores
    assert ("Completions are sampled" in text) == bool(entry.needs.policy_steps != 0 or entry.needs.prover_steps != 0)
    assert ("`source_labels` are the source's own" in text) == (entry.name != CORPUS_LABELS)


@pytest.mark.parametrize(
    ("reward_type", "negatives", "rewards"),
    [
        ("cpmi", "was contrasted with", "before it was normalised"),
        ("gold_only", "does not use them", "before it was normalised"),
        ("mc", "does not use them", "the same as `soft_labels`"),
    ],
)
def test_the_meanings_of_columns_are_those_of_this_reward(reward_type, negatives, rewards):
    text = card(reward_type, REWARD_TYPES[reward_type].is_probability)
    meanings = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.MULTILINE))
    assert negatives in meanings["hard_negatives"] and rewards in meanings["rewards"]


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
