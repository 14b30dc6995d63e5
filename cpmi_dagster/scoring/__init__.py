"""CPMI's scores: log-probabilities of answers under contexts of steps, and the shifts between them (Eq. 3).

    trajectories, negatives -> answer_logprobs (a model's forward passes) -> template_scores (arithmetic)

`contexts` says what stands before an answer; `tokens` and `admission` turn text into ids. `windows` -> `trees` ->
`packing` -> `readers` -> `tree_scorer` score many contexts in one forward pass; `reference` scores them one by one;
`planned` counts what it will take.
"""

from cpmi_dagster.scoring.conditionings import hardest_negatives, template_scores
from cpmi_dagster.scoring.contexts import Context, contexts_of, contrast
from cpmi_dagster.scoring.logprobs import ScoredAnswers, answer_logprobs
from cpmi_dagster.scoring.planned import forward_tokens
from cpmi_dagster.scoring.trajectories import ScoredTrajectories, score_in_full, score_trajectories

__all__ = [
    "Context",
    "ScoredAnswers",
    "ScoredTrajectories",
    "answer_logprobs",
    "contexts_of",
    "contrast",
    "forward_tokens",
    "hardest_negatives",
    "score_in_full",
    "score_trajectories",
    "template_scores",
]
