"""CPMI's scores: log-probabilities of answers under contexts of steps, and the shifts between them (Eq. 3).

    trajectories, negatives -> answer_logprobs (a model's forward passes) -> template_scores (arithmetic)

`admission` turns text into ids or refuses it, `answer_trees` lays ids out as token trees a window at a time, `scorers`
reads them with the labeler, and `conditionings` is the arithmetic.
"""
