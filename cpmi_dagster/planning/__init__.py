"""`cpmi plan`: what labeling by each method will take, estimated before it is spent.

    trajectories -> tokens (counted, or estimated) -> durations (arithmetic and bandwidth) -> plan (methods, price)

`shapes` reads the size of the models, `hardware` the speed and price of the cards; `labeling` adds up a chunk.
"""

from cpmi_dagster.planning.hardware import Hardware, default_hardware, load_hardware
from cpmi_dagster.planning.labeling import Chunk, chunk_costs
from cpmi_dagster.planning.plan import Plan, make_plan
from cpmi_dagster.planning.shapes import PlannedModel, planned_model

__all__ = [
    "Chunk",
    "Hardware",
    "Plan",
    "PlannedModel",
    "chunk_costs",
    "default_hardware",
    "load_hardware",
    "make_plan",
    "planned_model",
]
