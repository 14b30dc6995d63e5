"""Tokens that labeling some trajectories takes.

The labeler's token trees are packed as in a run, so that their tokens are exact. Sampled text is assumed to be as long
as what it stands for; of a question of 120 tokens with steps of 30, 30 and 20 tokens and T = 8 completions:

    prefix_length   prompt tokens   read   generated tokens
    1               150               1    8 x 50      the steps that remain; the rest was read with the longest prompt
    2               180               1    8 x 20
    3               200             200    8 x 1       the end of the text
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from cpmi_dagster.contracts.chunks import growing_slices
from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.keys import CONTROL_LOGPROBS
from cpmi_dagster.contracts.tables import HardNegatives
from cpmi_dagster.generation.monte_carlo import TRAJECTORIES_PER_CALL, prefixes_of
from cpmi_dagster.models.tokens import find_longest_texts, piece_ids, prompt_ids
from cpmi_dagster.negatives.hard_negatives import hard_negatives, negative_prompt
from cpmi_dagster.planning.hardware import CPU, PlannedModel
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.rewards.costs import SAMPLED, TARGET_TOKENS, Measured
from cpmi_dagster.rewards.reward_type import Steps
from cpmi_dagster.scoring.answer_trees import slices, trees_of, written_out
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.scoring.tokenization import (
    TokenizedTrajectory,
    join_negatives,
    render_trajectories,
    tokenize_trajectories,
)
from cpmi_dagster.trajectories.templates import render_step
from cpmi_dagster.tree_forward.flex import padded_length
from cpmi_dagster.tree_forward.probe import BY_DEVICE
from cpmi_dagster.tree_forward.tree_reader import LONGEST_ROW
from cpmi_dagster.tree_forward.trees import rows_of, whole


def count_labels(
    trajectories: pl.DataFrame,
    settings: Settings,
    models: Mapping[str, PlannedModel],
    negatives: tuple[pl.DataFrame, Cost] | None = None,
) -> Measured:
    """The tokens and seconds that every labeling stage takes for some trajectories.

    Args:
        trajectories: columns trajectory_id, question, steps, gold_answer; whole chunks of a run, in its order.
        models: by role (labeler, rollouts, prover), those that the profile needs.
        negatives: rows of `labels.hard_negatives` and the tokens of sampling them, if they have been sampled; by
            default edits of the gold answer stand for them.
    """
    demand, sampled, scored, targets = settings.demand, Cost(), Cost(), []
    # steps are read without a gold answer, too
    read = _steps(trajectories, settings.scoring, models["labeler"]) if demand.needs[CONTROL_LOGPROBS] else Cost()
    trajectories = trajectories.drop_nulls("gold_answer")
    scoring = settings.scoring.model_copy(update={"conditionings": demand.conditionings})
    answers = (
        negatives[0] if negatives else hard_negatives(trajectories, None, settings.negatives, settings.seed).negatives
    )
    for chunk in growing_slices(trajectories, scoring.chunk_trajectories):
        if demand.negatives and settings.negatives.samples:
            sampled += _negatives(chunk, settings, models["labeler"])
        if demand.conditionings:
            tokens, readable = scored_tokens(chunk, answers, models["labeler"], scoring, demand.negatives != 0)
            scored += models["labeler"].cost(tokens)
            for each in readable:
                gold, *others = (len(target) * len(each.prompts) for _, target in sorted(each.targets.items()))
                targets += [(each.trajectory_id, *context, gold, sum(others)) for context in each.contexts]
    if negatives:
        sampled = replace(negatives[1], wall_seconds=sampled.wall_seconds)
    costs, rollouts = {"hard_negatives": sampled, "answer_logprobs": scored, "control_logprobs": read}, {}
    for role, steps in (("rollouts", demand.policy_steps), ("prover", demand.prover_steps)):
        if steps != 0:
            costs[SAMPLED[role]], rollouts[role] = _rollouts(trajectories, settings, role, steps, models[role])
    return Measured(costs, rollouts, pl.DataFrame(targets, schema=TARGET_TOKENS, orient="row"))


def scored_tokens(
    trajectories: pl.DataFrame,
    negatives: pl.DataFrame,
    labeler: PlannedModel,
    scoring: Scoring,
    with_negatives: bool = True,
    of_steps: bool = False,
) -> tuple[int, list[TokenizedTrajectory]]:
    """Tokens that `answer_logprobs` sends through the labeler, padding included, and the trajectories it scores.

    Exact unless memory forces shorter rows, slow answers smaller chunks, or the model cannot use the device's first
    reader.

    Args:
        trajectories: a chunk that is scored together.
        with_negatives: hard negatives are scored beside the gold answer.
        of_steps: as for `answer_logprobs`.
    """
    device, total, scored = "cpu" if labeler.card.name == CPU else "cuda", 0, []
    reader = BY_DEVICE[device][0] if scoring.reader == "auto" else scoring.reader
    for part in slices(join_negatives(trajectories, negatives)):
        rendered, _ = render_trajectories(part, scoring, with_negatives, of_steps)
        readable = tokenize_trajectories(
            rendered, labeler.tokenizer, labeler.context_length, scoring.layout
        ).trajectories
        scored += readable
        if scoring.scorer == "reference":
            total += sum(len(before) + len(target) for _, before, target in written_out(readable))
            continue
        trees = [answers.tree for answers in trees_of(readable)]
        rows = rows_of(whole(*trees), scoring.row_tokens or LONGEST_ROW[device])
        total += sum(padded_length(len(row)) if reader == "flex" else len(row) for row in rows)
    return total, scored


def _steps(trajectories: pl.DataFrame, scoring: Scoring, labeler: PlannedModel) -> Cost:
    """What reading each step after the steps before it takes."""
    scoring, none, cost = scoring.model_copy(update={"conditionings": ()}), HardNegatives.create_empty(), Cost()
    for chunk in growing_slices(trajectories, scoring.chunk_trajectories):
        tokens, _ = scored_tokens(chunk, none, labeler, scoring, with_negatives=False, of_steps=True)
        cost += labeler.cost(tokens)
    return cost


def _negatives(chunk: pl.DataFrame, settings: Settings, labeler: PlannedModel) -> Cost:
    """What sampling hard negatives takes, each as long as the gold answer's line."""
    negatives, rows = settings.negatives, chunk.select("question", "steps", "gold_answer").iter_rows()
    lines = {negative_prompt(negatives, *row): f"{row[-1]}\n" for row in rows}
    ids, most = piece_ids(labeler.tokenizer, lines.values()), negatives.sampling.max_new_tokens
    texts = [(prompt, len(ids[line])) for prompt, line in lines.items()]
    return _sampling(texts, negatives.samples, most, labeler)


def _rollouts(
    trajectories: pl.DataFrame, settings: Settings, role: str, steps: Steps, model: PlannedModel
) -> tuple[Cost, pl.DataFrame]:
    """What completions of prefixes of at most `steps` steps take (Eq. 1), and their tokens, a row a distinct prefix."""
    rollouts, most = settings.rollouts, settings.rollouts.sampling.max_new_tokens
    first, count = (0, rollouts.prover_count) if role == "prover" else (1, rollouts.policy_count)
    solutions = dict(trajectories.select("trajectory_id", "steps").iter_rows())
    ids = piece_ids(model.tokenizer, (render_step(step) for solution in solutions.values() for step in solution))
    cost, rows = Cost(), []
    for call in growing_slices(trajectories, min(TRAJECTORIES_PER_CALL, rollouts.chunk_trajectories)):
        texts: dict[str, int] = {}
        for prefix in prefixes_of(call, first, steps):
            if prefix.prompt in texts:
                continue
            left = solutions[prefix.trajectory_id][len(prefix.steps) :]
            texts[prefix.prompt] = max(sum(len(ids[render_step(step)]) for step in left), 1)
            rows.append((len(prefix.steps), count * min(texts[prefix.prompt], most)))
        cost += _sampling([*texts.items()], count, most, model)
    return cost, pl.DataFrame(rows, schema=["prefix_length", "generated_tokens"], orient="row")


def _sampling(texts: Sequence[tuple[str, int]], count: int, most: int, model: PlannedModel) -> Cost:
    """The cost of `count` continuations of each prompt, of so many tokens each and `most` at most.

    Prompts are read as `TransformersEngine` reads them: those that begin another only by their last token.
    """
    ids = prompt_ids(model.tokenizer, [prompt for prompt, _ in texts])
    sized = [(prompt, min(tokens, most)) for prompt, (_, tokens) in zip(ids, texts, strict=True)]
    fitting = [(prompt, tokens) for prompt, tokens in sized if len(prompt) + most <= model.context_length]
    homes = find_longest_texts(prompt for prompt, _ in fitting)
    read = sum(len(prompt) if text == prompt else 1 for prompt, text in homes.items())
    return model.cost(read, count * sum(tokens for _, tokens in fitting))
