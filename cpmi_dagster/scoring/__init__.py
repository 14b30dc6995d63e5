"""CPMI scores: log-probabilities of answers under contexts of steps, and the shifts between them (Eq. 3).

    trajectories, negatives -> answer_logprobs (forward passes of the labeler) -> template_scores (arithmetic)

`tokenization` renders and tokenises trajectories or rejects them, `answer_trees` builds token trees, `scorers` reads
these with the labeler, `conditionings` computes the shifts.
"""
