"""Contexts that precede an answer, and the registry of conditionings: the two contexts that each compares (Eq. 3).

For a trajectory of three steps, `last` = 2, the table at step 1 reads

    conditioning     with the step        without it
    marginal         step/1      q s1     question     q
    incremental      prefix/1    q s0 s1  prefix/0     q s0
    prefix           prefix/1    q s0 s1  question     q
    leave_one_out    prefix/2    q s0-s2  all_but/1    q s0 s2

A new conditioning is an entry of `CONDITIONINGS`, which profiles, scorer, tables, reward types and reports read.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, get_args

from pydantic import AfterValidator

from cpmi_dagster.contracts.registries import by_name

ContextKind = Literal["question", "prefix", "step", "all_but"]
CONTEXT_KINDS: tuple[ContextKind, ...] = get_args(ContextKind)


class Context(NamedTuple):
    """The question alone, with steps 0 to i, with step i or with all steps but i; `step_index` is i, -1 for none."""

    kind: ContextKind
    step_index: int

    def steps(self, step_count: int) -> list[int]:
        """Indices of the steps between question and answer, in order."""
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
    """A conditioning.

    Attributes:
        name: in profiles and in `labels.template_scores`.
        words: in row labels of the report.
        compares: explanation in the report.
        contexts: those compared, with and without a step, given the step and the last step, both from 0.
        by_default: scored by `cpmi score` if no conditioning is named.
    """

    name: str
    words: str
    compares: str
    contexts: Callable[[int, int], tuple[Context, Context]]
    by_default: bool = True


CONDITIONINGS: dict[str, ConditioningEntry] = by_name(
    (
        ConditioningEntry(
            "marginal", "marginal", "step i alone against none", lambda step, last: (Context("step", step), QUESTION)
        ),
        ConditioningEntry(
            "incremental",
            "incremental",
            "steps up to i against steps before i",
            lambda step, last: (Context("prefix", step), Context("prefix", step - 1) if step else QUESTION),
        ),
        ConditioningEntry(
            "prefix", "prefix", "steps up to i against none", lambda step, last: (Context("prefix", step), QUESTION)
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
"""Conditionings by name, in the order of tables."""

SCORED_CONTROLS = ("step_surprisal",)
"""Controls that need the log-probabilities of the steps themselves."""

PAPERS = "marginal"
"""The conditioning of Eq. 3 as printed, and of the released labels."""


def check_conditioning(name: str) -> str:
    """The name, if it is that of a conditioning.

    Raises:
        ValueError: it is not; the message lists the conditionings.
    """
    if name not in CONDITIONINGS:
        raise ValueError(f"`{name}` is not a conditioning; choose from {', '.join(CONDITIONINGS)}")
    return name


Conditioning = Annotated[str, AfterValidator(check_conditioning)]


def before_each_step(step_count: int) -> tuple[Context, ...]:
    """The context of each step: the question and all steps before it."""
    return (QUESTION, *(Context("prefix", step) for step in range(step_count - 1)))


def contexts_of(conditionings: Iterable[Conditioning], step_count: int) -> tuple[Context, ...]:
    """Contexts that conditionings need for a trajectory, each once: question, prefixes, steps, all-but."""
    needed = {
        context
        for conditioning in conditionings
        for step in range(step_count)
        for context in CONDITIONINGS[conditioning].contexts(step, step_count - 1)
    }
    return tuple(sorted(needed, key=lambda context: (CONTEXT_KINDS.index(context.kind), context.step_index)))
