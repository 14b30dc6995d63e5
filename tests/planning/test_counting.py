"""The tokens a plan counts are those a run reports, but for the length of text that is not sampled yet."""

import pytest

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.generation.monte_carlo import prefix_rollouts
from cpmi_dagster.generation.transformers_engine import TransformersEngine
from cpmi_dagster.negatives.hard_negatives import hard_negatives
from cpmi_dagster.planning.counting import count_labels

SAMPLED = ("hard_negatives", "policy_rollouts", "prover_rollouts")


def read(cost: Cost) -> int:
    return cost.forward_tokens - cost.generated_tokens


@pytest.fixture(scope="module")
def run(trajectories, settings, loaded) -> dict[str, Cost]:
    """What the sampling stages of a run report for the trajectories."""
    engines = {role: TransformersEngine(model, settings.rollouts.batch_sequences) for role, model in loaded.items()}
    rollouts, how = settings.rollouts, (settings.rollouts.sampling, settings.seed)
    found = hard_negatives(trajectories, engines["labeler"], settings.negatives, settings.seed)
    policy = prefix_rollouts(trajectories, engines["rollouts"], None, 1, rollouts.policy_count, *how)
    prover = prefix_rollouts(trajectories, engines["prover"], None, 0, rollouts.prover_count, *how)
    return dict(zip(SAMPLED, (found.cost, policy[1], prover[1]), strict=True))


def test_what_is_read_is_known_before_anything_is_sampled(run, trajectories, settings, models):
    counted = count_labels(trajectories, settings, models)
    for part in SAMPLED:
        assert read(counted.costs[part]) == read(run[part]) > 0
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
