"""From tokens to seconds: arithmetic over the card's rate, or bytes over its bandwidth.

Qwen3-8B in bfloat16 (body P = 6.95e9, head H = 0.62e9, 36 layers, query width D = 4,096, keys and values of 147,456
bytes a token) on an H100 (989e12 FLOP/s, 3.35e12 B/s):

    1e6 tokens forward, each attending to 300, 1e5 of them projected
        2 P 1e6 + 4 x 36 D 3e8 + 2 H 1e5 = 1.42e16 FLOP           / (989e12 x 0.4)   = 36 s
    1e5 tokens generated, 256 side by side, each attending to 300
        2 (P + H) 1e5 + 4 x 36 D 3e7 = 1.5e15 FLOP                /  989e12          = 1.6 s
        16.4e9 B of weights x 1e5 / 256 + 147,456 B x 3e7 = 1.1e13 B  /  3.35e12     = 3.2 s   the larger, / 0.25 = 13 s
"""

from dataclasses import dataclass

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.planning.hardware import Hardware
from cpmi_dagster.planning.shapes import ModelShape

FLOPS_PER_PARAMETER = 2
FLOPS_PER_ATTENDED = 4


@dataclass(frozen=True)
class Work:
    """What a model has to compute; work adds up.

    Attributes:
        read_tokens: tokens read many at a time: prompts and token trees.
        read_attended: positions they attend to, summed over the tokens.
        projected: read tokens whose output is projected to the vocabulary.
        generated_tokens: tokens sampled one at a time, each projected.
        generated_attended: positions they attend to, summed.
        sequences: continuations that can be sampled in one batch.
    """

    read_tokens: int = 0
    read_attended: int = 0
    projected: int = 0
    generated_tokens: int = 0
    generated_attended: int = 0
    sequences: int = 0

    def __add__(self, other: "Work") -> "Work":
        """Both, one after the other; of the batches, the larger one."""
        sums = {name: value + getattr(other, name) for name, value in vars(self).items()}
        return Work(**{**sums, "sequences": max(self.sequences, other.sequences)})

    def cost(self, shape: ModelShape, hardware: Hardware, batch_sequences: int) -> Cost:
        """Seconds on one card, and tokens as `labels.labeling_costs` counts them: forward includes generated."""
        seconds = self.read_seconds(shape, hardware) + self.generation_seconds(shape, hardware, batch_sequences)
        return Cost(seconds, self.read_tokens + self.generated_tokens, self.generated_tokens)

    def read_seconds(self, shape: ModelShape, hardware: Hardware) -> float:
        """FLOPs / (rate x utilisation), FLOPs = 2 body tokens + 4 layers query_width attended + 2 head projected.

        A multiplication and an addition per parameter; attention multiplies queries with keys and weights with values.
        """
        flops = (
            FLOPS_PER_PARAMETER * (shape.body * self.read_tokens + shape.head * self.projected)
            + FLOPS_PER_ATTENDED * shape.layers * shape.query_width * self.read_attended
        )
        return flops / (hardware.flops(shape.dtype) * hardware.card.forward_utilisation)

    def generation_seconds(self, shape: ModelShape, hardware: Hardware, batch_sequences: int) -> float:
        """The larger of FLOPs / rate and bytes / bandwidth, over the utilisation of generation.

        FLOPs = 2 (body + head) tokens + 4 layers query_width attended. Bytes = weights once per token of a whole batch,
        and the keys and values of every position attended to.
        """
        if not self.generated_tokens:
            return 0.0
        flops = (
            FLOPS_PER_PARAMETER * (shape.body + shape.head) * self.generated_tokens
            + FLOPS_PER_ATTENDED * shape.layers * shape.query_width * self.generated_attended
        )
        side_by_side = max(1, min(batch_sequences, self.sequences))
        moved = shape.weight_bytes * self.generated_tokens / side_by_side + shape.cache_bytes * self.generated_attended
        bound = max(flops / hardware.flops(shape.dtype), moved / hardware.bandwidth)
        return bound / hardware.card.generation_utilisation
