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


def test_what_is_shared_is_read_once_within_a_chunk_as_in_a_run(trajectories, settings, models):
    chunks = {
        name: getattr(settings, name).model_copy(update={"chunk_trajectories": 1}) for name in ("scoring", "rollouts")
    }
    ones = settings.model_copy(update=chunks)
    together = count_labels(trajectories, ones, models).costs
    apart = [count_labels(row, ones, models).costs for row in trajectories.iter_slices(1)]
    for part, cost in together.items():
        assert cost.forward_tokens == sum(one[part].forward_tokens for one in apart)
        assert cost.forward_tokens >= count_labels(trajectories, settings, models).costs[part].forward_tokens
    scored = count_labels(trajectories, settings, models).costs["answer_logprobs"]
    assert together["answer_logprobs"].forward_tokens > scored.forward_tokens


def test_a_prompt_without_room_is_neither_read_nor_continued(trajectories, settings, models):
    sampling = settings.rollouts.sampling.model_copy(update={"max_new_tokens": 4096})
    full = settings.model_copy(update={"rollouts": settings.rollouts.model_copy(update={"sampling": sampling})})
    assert count_labels(trajectories, full, models).costs["policy_rollouts"] == Cost.zero()


@pytest.mark.parametrize("change", [{"samples": 0}, {"sees": "question"}])
def test_without_samples_or_steps_negatives_are_counted_as_a_run_makes_them(
    trajectories, settings, models, loaded, change
):
    changed = settings.model_copy(update={"negatives": settings.negatives.model_copy(update=change)})
    engine = TransformersEngine(loaded["labeler"], settings.rollouts.batch_sequences)
    found = hard_negatives(trajectories, engine, changed.negatives, changed.seed)
    counted = count_labels(trajectories, changed, models).costs["hard_negatives"]
    assert read(counted) == read(found.cost)


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
