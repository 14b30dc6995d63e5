"""`cpmi plan`: what labeling by each method will take, estimated before it is spent.

    trajectories -> counting (tokens and seconds, by stage) -> plan (by method, with its price) -> notes (as text)

`shapes` reads the size of the models, `hardware` the speed and price of the cards.
"""
