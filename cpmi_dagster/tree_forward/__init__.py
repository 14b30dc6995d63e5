"""How a model reads token trees: packed into rows, one forward pass a row, one value at each marked node.

    trees, packed into rows -> a row reader (flex, blocked, masked) -> tree_reader: values by tree

    labeler        log p of the tokens that a node predicts     of answers and of steps
    reward model   score at the last node of a step             of solutions
    backbone       hidden state at the last node of a step      of solutions

`probe` chooses the reader of a model; `next_tokens` computes log-probabilities.
"""

from typing import Literal

Reader = Literal["auto", "flex", "blocked", "masked"]
