"""Models whose layers do not see a whole branch are refused by name, and pointed to the reference scorer."""

import pytest

from cpmi_dagster.errors import ModelError
from cpmi_dagster.reading.probe import check_full_attention
from cpmi_dagster.scoring.logprobs import answer_logprobs, refusals
from cpmi_dagster.scoring.settings import Scoring

LONGEST = 100


@pytest.mark.parametrize(
    ("architecture", "config", "obstacle"),
    [
        ("mistral", {"sliding_window": 99}, "`sliding_attention` that see 99 tokens where a branch has 100"),
        ("qwen3", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}, "`sliding_attention`"),
        ("gemma2", {"sliding_window": 16}, "`sliding_attention`"),
        ("mamba", {"state_size": 4}, "`linear_attention`"),
    ],
)
def test_a_model_without_full_attention_is_refused_with_the_reason(build_model, architecture, config, obstacle):
    model = build_model(architecture, **config).model
    with pytest.raises(ModelError, match="--scorer reference") as refusal:
        check_full_attention(model, LONGEST)
    assert obstacle in str(refusal.value)


@pytest.mark.parametrize(
    ("architecture", "config"),
    [
        ("gpt2", {}),
        ("mistral", {"sliding_window": None}),
        ("mistral", {"sliding_window": 100}),
    ],
)
def test_a_model_that_sees_the_whole_branch_is_accepted(build_model, architecture, config):
    check_full_attention(build_model(architecture, **config).model, LONGEST)


def test_the_reference_scorer_takes_what_trees_cannot(build_model, trajectories, negatives):
    model = build_model("mistral", sliding_window=16)
    for read in (answer_logprobs, refusals):
        with pytest.raises(ModelError, match="sliding_attention"):
            read(trajectories, negatives, model, Scoring(templates=1))
    scoring = Scoring(templates=1, scorer="reference")
    assert refusals(trajectories[:1], negatives, model, scoring).is_empty()
    assert answer_logprobs(trajectories[:1], negatives, model, scoring).logprobs.height > 0
