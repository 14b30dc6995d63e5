"""What stands before an answer, and which two contexts each conditioning compares (Eq. 3).

For a trajectory of three steps, `last` = 2, the table at step 1 reads

    conditioning     with the step        without it
    marginal         step/1      q s1     question     q
    incremental      prefix/1    q s0 s1  prefix/0     q s0
    prefix           prefix/1    q s0 s1  question     q
    leave_one_out    prefix/2    q s0-s2  all_but/1    q s0 s2
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from cpmi_dagster.scoring.settings import Conditioning

ContextKind = Literal["question", "prefix", "step", "all_but"]
CONTEXT_KINDS: tuple[ContextKind, ...] = ("question", "prefix", "step", "all_but")


class Context(NamedTuple):
    """Question alone, steps 0..i, step i alone, or all steps but i; `step_index` is i, and -1 for the question."""

    kind: ContextKind
    step_index: int

    def steps(self, step_count: int) -> list[int]:
        """Indices of the steps that stand between the question and the answer, in order.

        Args:
            step_count: steps of the trajectory.
        """
        match self.kind:
            case "question":
                return []
            case "prefix":
                return list(range(self.step_index + 1))
            case "step":
                return [self.step_index]
            case "all_but":
                return [step for step in range(step_count) if step != self.step_index]


QUESTION = Context("question", -1)


def contrast(conditioning: Conditioning, step: int, last: int) -> tuple[Context, Context]:
    """The contexts with and without a step, whose difference is the step's shift (Eq. 3).

    Args:
        conditioning: which steps stand between the question and the answer.
        step: the step that is judged, from 0.
        last: the trajectory's last step, from 0.
    """
    match conditioning:
        case "marginal":
            return Context("step", step), QUESTION
        case "incremental":
            return Context("prefix", step), Context("prefix", step - 1) if step else QUESTION
        case "prefix":
            return Context("prefix", step), QUESTION
        case "leave_one_out":
            return Context("prefix", last), Context("all_but", step)


def contexts_of(conditionings: Iterable[Conditioning], step_count: int) -> tuple[Context, ...]:
    """Every context the conditionings need for a trajectory, each once: the question, prefixes, steps, all-but-ones.

    Args:
        conditionings: which steps stand between the question and the answer.
        step_count: steps of the trajectory.
    """
    needed = {
        context
        for conditioning in conditionings
        for step in range(step_count)
        for context in contrast(conditioning, step, step_count - 1)
    }
    return tuple(sorted(needed, key=lambda context: (CONTEXT_KINDS.index(context.kind), context.step_index)))
