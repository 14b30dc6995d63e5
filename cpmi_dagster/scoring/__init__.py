"""CPMI's scores: log-probabilities of answers under contexts of steps, and the shifts between them (Eq. 3).

    trajectories, negatives -> answer_logprobs (a model's forward passes) -> template_scores (arithmetic)

`contexts` says what stands before an answer; `admission` turns text into ids. `windows` -> `trees` -> `packing` ->
`readers` -> `tree_scorer` score many contexts in one forward pass; `reference` scores them one by one; `planned` counts
what it will take.
"""
