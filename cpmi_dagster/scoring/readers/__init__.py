"""Ways for a model to read a row of token trees; each gives the same log-probabilities of the row's targets.

    reader     how the model gets the tree's structure                   chosen
    flex       FlexAttention with a block mask of the trees              on CUDA; compiled once a length of row
    blocked    sdpa, 128 nodes at a time against the nodes they can see  elsewhere
    masked     a 4-D mask of the whole row                               models with an attention of their own

`choice` takes the first whose values agree with the model's own on a small tree;
a model that takes no mask is read by the reference scorer.
"""
