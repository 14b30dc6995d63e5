"""The tokens a plan counts are those a run reports, whatever is sampled."""

from dataclasses import replace

import polars as pl
import pytest

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.generation.monte_carlo import Portion, prefix_rollouts
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.transformers_engine import TransformersEngine
from cpmi_dagster.negatives.hard_negatives import hard_negatives
from cpmi_dagster.planning.counting import CountingEngine, LabelCounter, Made
from cpmi_dagster.scoring.logprobs import answer_logprobs

SAMPLED = ("hard_negatives", "policy_rollouts", "prover_rollouts")


def tokens(cost: Cost) -> tuple[int, int]:
    return cost.forward_tokens, cost.generated_tokens


@pytest.fixture(scope="module")
def run(trajectories, settings, loaded):
    """What the labeling stages report for the trajectories, and what they make."""
    engines = {role: TransformersEngine(model, settings.rollouts.batch_sequences) for role, model in loaded.items()}
    rollouts = settings.rollouts
    found = hard_negatives(trajectories, engines["labeler"], settings.negatives, settings.seed)
    scoring = settings.scoring.model_copy(update={"conditionings": settings.demand.conditionings})
    scored = answer_logprobs(trajectories, found.negatives, loaded["labeler"], scoring)
    by_policy, by_prover = Portion(1, None, 0, rollouts.policy_count), Portion(0, None, 0, rollouts.prover_count)
    policy = prefix_rollouts(trajectories, engines["rollouts"], [by_policy], rollouts.sampling, 0)
    prover = prefix_rollouts(trajectories, engines["prover"], [by_prover], rollouts.sampling, 0)
    costs = dict(zip(SAMPLED, (found.cost, policy[1], prover[1]), strict=True))
    tables = dict(zip(SAMPLED, (found.negatives, policy[0], prover[0]), strict=True))
    return costs | {"answer_logprobs": scored.cost}, Made(tables, found.cost.generated_tokens)


def test_tokens_are_those_a_run_reports_once_it_has_sampled(run, trajectories, settings, models, card):
    costs, made = run
    counted = LabelCounter(settings, models, card).count(trajectories, made)
    assert {part: tokens(cost) for part, cost in counted.costs.items()} == {
        part: tokens(cost) for part, cost in costs.items()
    }


def test_what_is_read_is_known_before_anything_is_sampled(run, trajectories, settings, models, card):
    counted = LabelCounter(settings, models, card).count(trajectories)
    for part in SAMPLED:
        read = [cost.forward_tokens - cost.generated_tokens for cost in (run[0][part], counted.costs[part])]
        assert read[0] == read[1] > 0
        assert counted.costs[part].wall_seconds > 0


def test_without_samples_hard_negatives_are_those_of_a_run(trajectories, settings, models, loaded, card):
    none = settings.model_copy(update={"negatives": settings.negatives.model_copy(update={"samples": 0})})
    found = hard_negatives(trajectories, None, none.negatives, none.seed).negatives
    scoring = none.scoring.model_copy(update={"conditionings": none.demand.conditionings})
    scored = answer_logprobs(trajectories, found, loaded["labeler"], scoring)
    counted = LabelCounter(none, models, card).count(trajectories)
    assert tokens(counted.costs["answer_logprobs"]) == tokens(scored.cost)
    assert tokens(counted.costs["hard_negatives"]) == (0, 0)


def test_a_continuation_is_as_long_as_the_steps_that_remain(trajectories, settings, models, card):
    counted = LabelCounter(settings, models, card).count(trajectories)
    encode = models["rollouts"].tokenizer.encode
    before, last = (
        len(encode(f"{step}\n", add_special_tokens=False)) for step in ("48 - 24 = 24", "So 24. The answer is: 24")
    )
    limit, count = settings.rollouts.sampling.max_new_tokens, settings.rollouts.policy_count
    first = counted.rollouts["rollouts"].filter(pl.col("trajectory_id") == "t000000002")
    sums = first.group_by("prefix_length", maintain_order=True).agg(pl.col("generated_tokens").sum())
    assert sums["generated_tokens"].to_list() == [
        count * min(before + last, limit),
        count * min(last, limit),
        count,
    ]
    assert counted.rollouts["prover"].filter(pl.col("prefix_length") == 0)["trajectory_id"].n_unique() == 5


def test_a_prompt_without_room_is_neither_read_nor_continued(trajectories, settings, models, card):
    sampling = settings.rollouts.sampling.model_copy(update={"max_new_tokens": 4096})
    full = settings.model_copy(update={"rollouts": settings.rollouts.model_copy(update={"sampling": sampling})})
    assert tokens(LabelCounter(full, models, card).count(trajectories).costs["policy_rollouts"]) == (0, 0)


def test_what_is_shared_is_read_once_within_a_chunk_as_in_a_run(trajectories, settings, models, card):
    ones = settings.model_copy(
        update={
            "scoring": settings.scoring.model_copy(update={"chunk_trajectories": 1}),
            "rollouts": settings.rollouts.model_copy(update={"chunk_trajectories": 1}),
        }
    )
    together = LabelCounter(ones, models, card).count(trajectories).costs
    apart = [LabelCounter(ones, models, card).count(row).costs for row in trajectories.iter_slices(1)]
    assert {part: tokens(cost) for part, cost in together.items()} == {
        part: tokens(sum((one[part] for one in apart), Cost.zero())) for part in together
    }
    shared = LabelCounter(settings, models, card).count(trajectories).costs
    assert shared["answer_logprobs"].forward_tokens < together["answer_logprobs"].forward_tokens


def test_engines_other_than_transformers_report_whole_prompts(models, card):
    prompts = ["The same long beginning of two prompts, and a one", "The same long beginning of two prompts"]
    sampling = Sampling(temperature=1, top_p=1, max_new_tokens=20)
    model = models["rollouts"]
    read = [
        [group[0].prompt_tokens for group in CountingEngine(each, card, 256, [8, 8]).generate(prompts, sampling, 8, 0)]
        for each in (model, replace(model, shares_prompts=False))
    ]
    assert read[0][0] == read[1][0]
    assert read[0][1] == 1 < read[1][1]


def test_expected_tokens_stay_within_the_limit_and_seconds_add_up(models, card):
    model, sampling = models["rollouts"], Sampling(temperature=1, top_p=1, max_new_tokens=20)
    engine = CountingEngine(model, card, 256, [0, 19, 999])
    groups = engine.generate(["a", "b", "c"], sampling, 8, 0)
    assert [sum(one.tokens for one in group) for group in groups] == [8, 19, 160]
    sizes = [group[0].prompt_tokens for group in groups]
    attended = sum(tokens * (size + (tokens // 8 + 1) / 2) for tokens, size in zip((8, 19, 160), sizes, strict=True))
    assert engine.seconds == pytest.approx(card.seconds(model.shape, sum(sizes), 3, 187, attended, batch=24))
