"""How a model reads: token trees in rows, one forward pass each, and a value taken at each of their marked nodes.

    trees -> packing -> row_reader (flex, blocked, masked) -> tree_reader: values by tree

    labeler        log p of the tokens that a node predicts     of answers and of steps
    reward model   the score at the last node of a step         of solutions
    backbone       the state at the last node of a step         of solutions

`probe` chooses how a model reads a row; `next_tokens` takes log-probabilities.
"""

from typing import Literal

Reader = Literal["auto", "flex", "blocked", "masked"]
