"""Tokens that labeling some trajectories takes, and the seconds of one card.

The labeler's token trees are packed as in a run, so that their tokens are exact. Sampled text is assumed to be as long
as what it stands for; of a question of 120 tokens with steps of 30, 30 and 20 tokens and T = 8 completions:

    prefix_length   prompt tokens   read   generated tokens
    1               150               1    8 x 50      the steps that remain; the rest was read with the longest prompt
    2               180               1    8 x 20
    3               200             200    8 x 1       the end of the text
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import polars as pl

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.generation.monte_carlo import TRAJECTORIES_PER_CALL, prefixes_of
from cpmi_dagster.generation.shared_beginnings import shared_beginnings
from cpmi_dagster.models.tokens import piece_ids, prompt_ids
from cpmi_dagster.negatives.hard_negatives import hard_negatives, negative_prompt
from cpmi_dagster.planning.hardware import CPU, Hardware, PlannedModel
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.rewards.costs import SAMPLED, TARGET_TOKENS, Measured, tokens_of
from cpmi_dagster.rewards.demand import Steps
from cpmi_dagster.scoring.admission import TokenizedTrajectory, admit
from cpmi_dagster.scoring.packing import rows_of, whole
from cpmi_dagster.scoring.readers.choice import BY_DEVICE
from cpmi_dagster.scoring.readers.flex import padded_length
from cpmi_dagster.scoring.reference import written_out
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.scoring.tree_scorer import LONGEST_ROW
from cpmi_dagster.scoring.windows import slices, trees_of
from cpmi_dagster.trajectories.templates import render_step


def count_labels(
    trajectories: pl.DataFrame,
    settings: Settings,
    models: Mapping[str, PlannedModel],
    card: Hardware,
    negatives: tuple[pl.DataFrame, Cost] | None = None,
) -> Measured:
    """The cost of every labeling stage for some trajectories.

    Args:
        trajectories: columns trajectory_id, question, steps, gold_answer; whole chunks of a run, in its order.
        models: by role (labeler, rollouts, prover), those that the profile needs.
        negatives: rows of `labels.hard_negatives`, and what sampling them took, if they have been sampled.
    """
    demand, sampled, scored = settings.demand, Cost.zero(), Cost.zero()
    targets = [pl.DataFrame(schema=TARGET_TOKENS)]
    scoring = settings.scoring.model_copy(update={"conditionings": demand.conditionings})
    device = "cpu" if card.name == CPU else "cuda"
    for chunk in trajectories.iter_slices(settings.scoring.chunk_trajectories):
        if demand.negatives:
            sampled += _negatives(chunk, settings, models["labeler"], card)
        if demand.conditionings:
            # heuristic answers stand for those that are not sampled yet
            answers = (
                negatives[0] if negatives else hard_negatives(chunk, None, settings.negatives, settings.seed).negatives
            )
            answers = answers.join(chunk, on="trajectory_id", how="semi")
            tokens, admitted = scored_tokens(chunk, answers, models["labeler"], scoring, device, demand.negatives > 0)
            rows = []
            for one in admitted:
                gold, *others = (len(target) * len(one.prompts) for _, target in sorted(one.targets.items()))
                rows += [(one.trajectory_id, *context, gold, sum(others)) for context in one.contexts]
            targets.append(pl.DataFrame(rows, schema=TARGET_TOKENS, orient="row"))
            projected = min(tokens_of(targets[-1]), tokens)
            scored += Cost(card.seconds(models["labeler"], tokens, projected), tokens)
    if negatives:
        sampled = replace(negatives[1], wall_seconds=sampled.wall_seconds)
    costs, rollouts = {"hard_negatives": sampled, "answer_logprobs": scored}, {}
    roles: dict[str, Steps] = {"rollouts": demand.policy_steps, "prover": demand.prover_steps}
    for role, steps in roles.items():
        costs[SAMPLED[role]], rollouts[role] = Cost.zero(), pl.DataFrame()
        if steps != 0:
            costs[SAMPLED[role]], rollouts[role] = _rollouts(trajectories, settings, role, steps, models[role], card)
    return Measured(costs, rollouts, pl.concat(targets))


def scored_tokens(
    trajectories: pl.DataFrame,
    negatives: pl.DataFrame,
    labeler: PlannedModel,
    scoring: Scoring,
    device: Literal["cpu", "cuda"] = "cpu",
    contrasted: bool = True,
) -> tuple[int, list[TokenizedTrajectory]]:
    """Tokens that `answer_logprobs` sends through the labeler, padding included, and the trajectories it scores.

    Exact unless memory forces shorter rows, or the model cannot use the device's first reader.

    Args:
        trajectories: columns trajectory_id, question, steps, gold_answer; a chunk that is scored together.
        negatives: columns of `labels.hard_negatives`.
        device: rows for cuda are longer, and padded to few lengths.
        contrasted: hard negatives are scored beside the gold answer.
    """
    reader = BY_DEVICE[device][0] if scoring.reader == "auto" else scoring.reader
    total, scored = 0, []
    for part in slices(trajectories):
        tokenizer, context_length = labeler.tokenizer, labeler.context_length
        admitted, _ = admit(part, negatives, tokenizer, context_length, scoring, contrasted=contrasted)
        scored += admitted
        if scoring.scorer == "reference":
            total += sum(len(before) + len(target) for _, before, target in written_out(admitted))
            continue
        lengths = [len(row) for row in rows_of(whole(*trees_of(admitted)), scoring.row_tokens or LONGEST_ROW[device])]
        total += sum(map(padded_length, lengths) if reader == "flex" else lengths)
    return total, scored


def _negatives(chunk: pl.DataFrame, settings: Settings, labeler: PlannedModel, card: Hardware) -> Cost:
    """The cost of sampling hard negatives, each as long as the gold answer's line."""
    negatives, texts = settings.negatives, chunk.select("question", "steps", "gold_answer").iter_rows()
    lines = {negative_prompt(negatives, *row): f"{row[-1]}\n" for row in texts} if negatives.samples else {}
    ids, most = piece_ids(labeler.tokenizer, lines.values()), negatives.sampling.max_new_tokens
    texts = list(zip(lines, (min(len(ids[line]), most) for line in lines.values()), strict=True))
    return _sampling(texts, negatives.samples, most, settings, labeler, card)


def _rollouts(
    trajectories: pl.DataFrame, settings: Settings, role: str, steps: Steps, model: PlannedModel, card: Hardware
) -> tuple[Cost, pl.DataFrame]:
    """The cost of completing prefixes of at most `steps` steps (Eq. 1), and a frame of tokens with a row per prefix."""
    rollouts, first = settings.rollouts, 0 if role == "prover" else 1
    count, most = (
        (rollouts.prover_count if role == "prover" else rollouts.policy_count),
        rollouts.sampling.max_new_tokens,
    )
    solutions = dict(trajectories.select("trajectory_id", "steps").iter_rows())
    ids = piece_ids(model.tokenizer, (render_step(step) for solution in solutions.values() for step in solution))
    cost, rows = Cost.zero(), []
    for chunk in trajectories.iter_slices(rollouts.chunk_trajectories):
        for call in chunk.iter_slices(TRAJECTORIES_PER_CALL):
            texts = []
            for prefix in prefixes_of(call, first, steps):
                left = solutions[prefix.trajectory_id][len(prefix.steps) :]
                texts.append((prefix.prompt, min(max(sum(len(ids[render_step(step)]) for step in left), 1), most)))
                rows.append((len(prefix.steps), 0, count * texts[-1][1]))
            cost += _sampling(texts, count, most, settings, model, card)
    return cost, pl.DataFrame(rows, schema=["prefix_length", "rollout", "generated_tokens"], orient="row")


def _sampling(
    texts: Sequence[tuple[str, int]], count: int, most: int, settings: Settings, model: PlannedModel, card: Hardware
) -> Cost:
    """The cost of `count` continuations of each prompt, of so many tokens each and `most` at most.

    Prompts are read as `TransformersEngine` reads them: the longest first, and what two of them begin with once.
    """
    batch, ids = settings.rollouts.batch_sequences, prompt_ids(model.tokenizer, [prompt for prompt, _ in texts])
    pairs = [
        (one, tokens) for one, (_, tokens) in zip(ids, texts, strict=True) if len(one) + most <= model.context_length
    ]
    # continuations beyond a batch read the same prompt again
    starts = [prompt for prompt, _ in sorted(pairs, key=lambda pair: -len(pair[0])) for _ in range(0, count, batch)]
    shared = shared_beginnings(starts, batch * max(map(len, starts), default=0))
    read = sum(map(len, starts)) - sum(beginning.length for beginning in shared if beginning)
    generated = count * sum(tokens for _, tokens in pairs)
    # the n-th token of a continuation attends to the prompt and n more
    attended = count * sum(tokens * (len(prompt) + (tokens + 1) / 2) for prompt, tokens in pairs)
    seconds = card.sampling_seconds(model, generated, attended, max(min(batch, count * len(pairs)), 1))
    return Cost(card.seconds(model, read, len(pairs)) + seconds, read + generated, generated)
