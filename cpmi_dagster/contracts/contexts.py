"""What precedes an answer, and the registry of conditionings: which two contexts each compares (Eq. 3).

For a trajectory of three steps, `last` = 2, the table at step 1 reads

    conditioning     with the step        without it
    marginal         step/1      q s1     question     q
    incremental      prefix/1    q s0 s1  prefix/0     q s0
    prefix           prefix/1    q s0 s1  question     q
    leave_one_out    prefix/2    q s0-s2  all_but/1    q s0 s2

A new conditioning is an entry of `CONDITIONINGS`: profiles, the scorer, tables, reward types and reports take it from
here.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, get_args

from pydantic import AfterValidator

from cpmi_dagster.contracts.registries import by_name

ContextKind = Literal["question", "prefix", "step", "all_but"]
CONTEXT_KINDS: tuple[ContextKind, ...] = get_args(ContextKind)


class Context(NamedTuple):
    """Question alone, steps 0..i, step i alone, or all steps but i; `step_index` is i, and -1 for the question."""

    kind: ContextKind
    step_index: int

    def steps(self, step_count: int) -> list[int]:
        """Indices of the steps between the question and the answer, in order, of a trajectory of `step_count`."""
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


@dataclass(frozen=True)
class ConditioningEntry:
    """A way to condition on a step.

    Attributes:
        name: in profiles and in `labels.template_scores`.
        words: in the labels of the report.
        compares: what precedes the answer with and without step i, as the report explains it.
        contrast: the contexts with and without a step, of the step and the trajectory's last step, both from 0.
        by_default: scored by `cpmi score` where none is named.
    """

    name: str
    words: str
    compares: str
    contrast: Callable[[int, int], tuple[Context, Context]]
    by_default: bool = True


CONDITIONINGS: dict[str, ConditioningEntry] = by_name(
    (
        ConditioningEntry(
            "marginal", "marginal", "step i alone against none", lambda step, last: (Context("step", step), QUESTION)
        ),
        ConditioningEntry(
            "incremental",
            "incremental",
            "steps 1 to i against 1 to i − 1",
            lambda step, last: (Context("prefix", step), Context("prefix", step - 1) if step else QUESTION),
        ),
        ConditioningEntry(
            "prefix", "prefix", "steps 1 to i against none", lambda step, last: (Context("prefix", step), QUESTION)
        ),
        # its contexts cost as much as those of the others together
        ConditioningEntry(
            "leave_one_out",
            "leave one out",
            "all against all but i",
            lambda step, last: (Context("prefix", last), Context("all_but", step)),
            by_default=False,
        ),
    )
)
"""Every conditioning by name, in the order in which tables list them."""

SCORED_CONTROLS = ("step_surprisal",)
"""What the labeler reads beside answers: the steps themselves."""

PAPERS = "marginal"
"""The conditioning of Eq. 3 as printed, and of the released labels."""


def check_conditioning(name: str) -> str:
    """The name of a conditioning, as it is.

    Raises:
        ValueError: there is no such conditioning; the message lists them.
    """
    if name not in CONDITIONINGS:
        raise ValueError(f"`{name}` is not a conditioning; choose from {', '.join(CONDITIONINGS)}")
    return name


Conditioning = Annotated[str, AfterValidator(check_conditioning)]


def contrast(conditioning: Conditioning, step: int, last: int) -> tuple[Context, Context]:
    """The contexts with and without a step, whose difference is the step's shift (Eq. 3); steps count from 0."""
    return CONDITIONINGS[conditioning].contrast(step, last)


def before_each_step(step_count: int) -> tuple[Context, ...]:
    """What precedes each step of a trajectory: the question, then the prefixes."""
    return (QUESTION, *(Context("prefix", step) for step in range(step_count - 1)))


def contexts_of(conditionings: Iterable[Conditioning], step_count: int) -> tuple[Context, ...]:
    """Every context the conditionings need for a trajectory, each once: the question, prefixes, steps, all-but-ones."""
    needed = {
        context
        for conditioning in conditionings
        for step in range(step_count)
        for context in contrast(conditioning, step, step_count - 1)
    }
    return tuple(sorted(needed, key=lambda context: (CONTEXT_KINDS.index(context.kind), context.step_index)))
