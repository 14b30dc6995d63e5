"""`cpmi plan`: what labeling by each method will take, estimated before it is spent.

    trajectories -> tokens (counted, or estimated) -> durations (arithmetic and bandwidth) -> plan (methods, price)

`shapes` reads the size of the models, `hardware` the speed and price of the cards; `labeling` adds up a chunk.
"""
