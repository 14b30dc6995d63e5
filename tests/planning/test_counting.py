"""The tokens a plan counts are those a run reports, but for the length of text that is not sampled yet."""

import pytest

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.generation.monte_carlo import prefix_rollouts
from cpmi_dagster.generation.transformers_engine import TransformersEngine
from cpmi_dagster.negatives.hard_negatives import hard_negatives
from cpmi_dagster.planning.counting import count_labels
from cpmi_dagster.scoring.logprobs import answer_logprobs

SAMPLED = ("hard_negatives", "policy_rollouts", "prover_rollouts")


def read(cost: Cost) -> int:
    return cost.forward_tokens - cost.generated_tokens


@pytest.fixture(scope="module")
def run(trajectories, settings, loaded):
    """The negatives of the trajectories, and what the labeling stages report for them."""
    engines = {role: TransformersEngine(model, settings.rollouts.batch_sequences) for role, model in loaded.items()}
    rollouts, seed = settings.rollouts, settings.seed
    found = hard_negatives(trajectories, engines["labeler"], settings.negatives, seed)
    scoring = settings.scoring.model_copy(update={"conditionings": settings.demand.conditionings})
    scored = answer_logprobs(trajectories, found.negatives, loaded["labeler"], scoring)
    how = (rollouts.sampling, seed)
    policy = prefix_rollouts(trajectories, engines["rollouts"], None, 1, rollouts.policy_count, *how)
    prover = prefix_rollouts(trajectories, engines["prover"], None, 0, rollouts.prover_count, *how)
    costs = dict(zip((*SAMPLED, "answer_logprobs"), (found.cost, policy[1], prover[1], scored.cost), strict=True))
    return found.negatives, costs


def test_scored_tokens_are_those_a_run_reports_once_negatives_are_sampled(run, trajectories, settings, models):
    negatives, costs = run
    counted = count_labels(trajectories, settings, models, (negatives, costs["hard_negatives"]))
    assert counted.costs["answer_logprobs"].forward_tokens == costs["answer_logprobs"].forward_tokens
    for name in ("forward_tokens", "generated_tokens"):
        assert getattr(counted.costs["hard_negatives"], name) == getattr(costs["hard_negatives"], name)


def test_what_is_read_is_known_before_anything_is_sampled(run, trajectories, settings, models):
    counted = count_labels(trajectories, settings, models)
    for part in SAMPLED:
        assert read(counted.costs[part]) == read(run[1][part]) > 0
        assert counted.costs[part].wall_seconds > 0


def test_a_continuation_is_as_long_as_the_steps_that_remain(trajectories, settings, models):
    counted = count_labels(trajectories[1:2], settings, models)
    encode = models["rollouts"].tokenizer.encode
    before, last = (
        len(encode(f"{step}\n", add_special_tokens=False)) for step in ("48 - 24 = 24", "So 24. The answer is: 24")
    )
    limit, count = settings.rollouts.sampling.max_new_tokens, settings.rollouts.policy_count
    expected = [count * min(before + last, limit), count * min(last, limit), count]
    assert counted.rollouts["rollouts"]["generated_tokens"].to_list() == expected
    assert counted.rollouts["prover"]["prefix_length"].to_list() == [0, 1, 2, 3]
