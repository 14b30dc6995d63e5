"""What reward types need of the labeling assets; nothing else is computed.

types            conditionings    negatives   policy_steps   prover_steps
cpmi             marginal         4           0              0
cpmi_merge1      marginal         4           1              0
gold_only        marginal         0           0              0
pav              -                0           all            all
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cpmi_dagster.contracts.contexts import CONDITIONINGS, SCORED_CONTROLS, Conditioning
from cpmi_dagster.rewards.registry import reward_type

Steps = int | None


@dataclass(frozen=True)
class Demand:
    """What labeling has to compute.

    Attributes:
        conditionings: under which answers are scored, in the order of the registry; none where nothing is scored.
        negatives: hard negatives of each trajectory, 0 where gold answers alone are scored.
        policy_steps: steps whose prefixes the policy completes; None is all, 0 none.
        prover_steps: likewise for the prover, which also completes the bare question.
        controls: what the labeler reads for controls.
    """

    conditionings: tuple[Conditioning, ...] = ()
    negatives: int = 0
    policy_steps: Steps = 0
    prover_steps: Steps = 0
    controls: tuple[str, ...] = ()

    def __or__(self, other: "Demand") -> "Demand":
        """What both need."""
        named = {*self.conditionings, *other.conditionings}
        return Demand(
            tuple(name for name in CONDITIONINGS if name in named),
            max(self.negatives, other.negatives),
            most_steps(self.policy_steps, other.policy_steps),
            most_steps(self.prover_steps, other.prover_steps),
            tuple(name for name in SCORED_CONTROLS if name in {*self.controls, *other.controls}),
        )

    @property
    def asks_for(self) -> dict[str, bool]:
        """By labeling asset, whether anything is asked of it."""
        return {
            "hard_negatives": self.negatives > 0,
            "answer_logprobs": bool(self.conditionings),
            "control_logprobs": bool(self.controls),
            "policy_rollouts": self.policy_steps != 0,
            "prover_rollouts": self.prover_steps != 0,
        }


def most_steps(one: Steps, other: Steps) -> Steps:
    """The larger of two numbers of steps, of which None is all."""
    return None if one is None or other is None else max(one, other)


def demand_of(
    types: Iterable[str], default_conditioning: Conditioning, negatives: int, asked: Sequence[Conditioning] = ()
) -> Demand:
    """What some reward types need together.

    CPMI with the M hardest negatives (appendix D.1) needs all of them: which are the hardest, their scores decide.

    Args:
        types: names of reward types.
        default_conditioning: of the types that name none.
        negatives: the profile's M.
        asked: conditionings whose scores are wanted beside those of the types.
    """
    total = Demand(tuple(asked), negatives if asked else 0)
    for entry in map(reward_type, types):
        needs = entry.needs
        total |= Demand(
            (needs.conditionings or (default_conditioning,)) if needs.scores else (),
            negatives if needs.contrasts else 0,
            needs.policy_steps,
            needs.prover_steps,
            needs.controls,
        )
    return total
