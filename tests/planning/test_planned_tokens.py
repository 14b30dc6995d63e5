"""The tokens a plan counts are those a run reports, whatever is sampled."""

from dataclasses import replace

import polars as pl
import pytest
from planning_examples import CARD

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.generation.monte_carlo import prefix_rollouts
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.transformers_engine import TransformersEngine
from cpmi_dagster.negatives.hard_negatives import hard_negatives
from cpmi_dagster.planning.labeling import Chunk, chunk_costs
from cpmi_dagster.planning.tokens import Prompt, Samples, read_prompts
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.scoring.logprobs import answer_logprobs
from cpmi_dagster.scoring.settings import Scoring

SAMPLES = Samples(8, Sampling(temperature=1, top_p=1, max_new_tokens=20), 256)


def scoring_of(settings: Settings) -> Scoring:
    return settings.scoring.model_copy(update={"conditionings": settings.demand.conditionings})


def tokens(cost: Cost) -> tuple[int, int]:
    return cost.forward_tokens, cost.generated_tokens


@pytest.fixture(scope="module")
def measured(trajectories, settings, loaded):
    """What the labeling stages report for the trajectories, and what they make."""
    engines = {role: TransformersEngine(model, settings.rollouts.batch_sequences) for role, model in loaded.items()}
    rollouts = settings.rollouts
    found = hard_negatives(trajectories, engines["labeler"], settings.negatives, settings.seed)
    scored = answer_logprobs(trajectories, found.negatives, loaded["labeler"], scoring_of(settings))
    policy = prefix_rollouts(trajectories, engines["rollouts"], rollouts.policy_count, rollouts.sampling, 0, False)
    prover = prefix_rollouts(trajectories, engines["prover"], rollouts.prover_count, rollouts.sampling, 0, True)
    costs = {
        "hard_negatives": found.cost,
        "answer_logprobs": scored.cost,
        "policy_rollouts": policy[1],
        "prover_rollouts": prover[1],
    }
    return costs, found.negatives, policy[0], prover[0]


def test_tokens_are_those_a_run_reports_once_it_has_sampled(measured, trajectories, settings, models):
    costs, negatives, policy, prover = measured
    made = {"hard_negatives": negatives, "policy_rollouts": policy, "prover_rollouts": prover}
    chunk = Chunk("000", trajectories, made, costs["hard_negatives"].generated_tokens)
    planned = chunk_costs(chunk, models, settings, CARD)
    assert {part: tokens(cost) for part, cost in planned.costs.items()} == {
        part: tokens(cost) for part, cost in costs.items()
    }
    assert not planned.guesses


def test_what_is_read_is_known_before_anything_is_sampled(measured, trajectories, settings, models):
    costs = measured[0]
    planned = chunk_costs(Chunk("000", trajectories), models, settings, CARD)
    for part in ("hard_negatives", "policy_rollouts", "prover_rollouts"):
        read = [cost.forward_tokens - cost.generated_tokens for cost in (costs[part], planned.costs[part])]
        assert read[0] == read[1] > 0
    assert planned.guesses == {
        ("hard_negatives", "generated"), ("answer_logprobs", "forward"),
        ("policy_rollouts", "generated"), ("prover_rollouts", "generated"),
    }  # fmt: skip


def test_heuristic_negatives_are_no_guess_where_none_are_sampled(trajectories, settings, models, loaded):
    none = settings.model_copy(update={"negatives": settings.negatives.model_copy(update={"samples": 0})})
    planned = chunk_costs(Chunk("000", trajectories), models, none, CARD)
    found = hard_negatives(trajectories, None, none.negatives, none.seed).negatives
    scored = answer_logprobs(trajectories, found, loaded["labeler"], scoring_of(none))
    assert tokens(planned.costs["answer_logprobs"]) == tokens(scored.cost)
    assert planned.costs["hard_negatives"] == Cost.zero()
    assert not {part for part, _ in planned.guesses} & {"hard_negatives", "answer_logprobs"}


def test_a_continuation_is_as_long_as_the_steps_that_remain(trajectories, settings, models):
    planned = chunk_costs(Chunk("000", trajectories), models, settings, CARD)
    tokenizer = models["rollouts"].tokenizer
    first = planned.rollouts["rollouts"].filter(pl.col("trajectory_id") == "t000000002")
    last = tokenizer.encode("So 24. The answer is: 24\n", add_special_tokens=False)
    before = tokenizer.encode("48 - 24 = 24\n", add_special_tokens=False)
    limit, count = settings.rollouts.sampling.max_new_tokens, settings.rollouts.policy_count
    expected = [min(len(before) + len(last), limit), min(len(last), limit), 1]
    assert first["generated_tokens"].to_list() == [count * tokens for tokens in expected]
    assert planned.rollouts["prover"].filter(pl.col("prefix_length") == 0).height == trajectories.height


def test_a_prompt_without_room_is_neither_read_nor_continued(trajectories, settings, models):
    sampling = settings.rollouts.sampling.model_copy(update={"max_new_tokens": 4096})
    full = settings.model_copy(update={"rollouts": settings.rollouts.model_copy(update={"sampling": sampling})})
    assert tokens(chunk_costs(Chunk("000", trajectories), models, full, CARD).costs["policy_rollouts"]) == (0, 0)


def test_portions_are_those_of_a_run(trajectories, settings, models):
    ones = settings.model_copy(
        update={
            "scoring": settings.scoring.model_copy(update={"chunk_trajectories": 1}),
            "rollouts": settings.rollouts.model_copy(update={"chunk_trajectories": 1}),
        }
    )
    together = chunk_costs(Chunk("000", trajectories), models, ones, CARD)
    apart = [chunk_costs(Chunk("000", row), models, ones, CARD) for row in trajectories.iter_slices(1)]
    assert {part: tokens(cost) for part, cost in together.costs.items()} == {
        part: tokens(sum((one.costs[part] for one in apart), Cost.zero())) for part in together.costs
    }
    shared = chunk_costs(Chunk("000", trajectories), models, settings, CARD)
    assert shared.costs["answer_logprobs"].forward_tokens < together.costs["answer_logprobs"].forward_tokens


def test_engines_other_than_transformers_report_whole_prompts(settings, models):
    sampling = Samples(1, settings.rollouts.sampling, 256)
    prompts = ["The same long beginning of two prompts, and a one", "The same long beginning of two prompts"]
    shared = read_prompts(models["rollouts"], prompts, sampling)
    whole = read_prompts(replace(models["rollouts"], shares_prompts=False), prompts, sampling)
    assert [prompt.tokens for prompt in shared] == [prompt.tokens for prompt in whole]
    assert [prompt.read for prompt in whole] == [prompt.tokens for prompt in whole]
    assert shared[1].read == 1 < whole[1].read


def test_sampling_work_by_hand():
    # a prompt of 10 of which 4 are read, continued 8 times by 3 tokens each; one without room
    work = SAMPLES.work([Prompt(10, 4), Prompt(0, 0)], [24, 0])
    assert (work.read_tokens, work.read_attended, work.projected) == (4, 7 + 8 + 9 + 10, 1)
    assert (work.generated_tokens, work.generated_attended) == (24, 8 * (11 + 12 + 13))


def test_estimates_stay_within_the_limit():
    assert [SAMPLES.estimate(Prompt(10, 10), tokens) for tokens in (0, 7, 99)] == [8, 56, 160]
    assert SAMPLES.estimate(Prompt(0, 0), 7) == 0
