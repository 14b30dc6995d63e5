"""Token trees of random trajectories, in which repeated steps and answers inside answers are the rule."""

from hypothesis import strategies as st

from cpmi_dagster.contracts.contexts import contexts_of
from cpmi_dagster.scoring.admission import TokenizedTrajectory
from cpmi_dagster.scoring.answer_trees import trees_of

PROMPT = (9, 8)
ALL = ("marginal", "incremental", "prefix", "leave_one_out")

ids = st.lists(st.integers(0, 1), max_size=3).map(tuple)
targets = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=4).map(tuple), min_size=1, max_size=4)


@st.composite
def questions(draw):
    """One to three trajectories of one question."""
    drawn = draw(st.lists(st.tuples(st.lists(ids, min_size=1, max_size=4), targets), min_size=1, max_size=3))
    return [
        TokenizedTrajectory(
            f"t{number}", (PROMPT,), tuple(steps), dict(enumerate(answers)), contexts_of(ALL, len(steps))
        )
        for number, (steps, answers) in enumerate(drawn)
    ]


def tree_of(trajectories):
    """Their tree below `PROMPT`, and its targets."""
    (answers,) = trees_of(trajectories)
    return answers


def random_trees():
    """Trees of random questions."""
    return questions().map(lambda trajectories: tree_of(trajectories).tree)
