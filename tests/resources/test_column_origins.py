"""Columns are followed back to the sources."""

import pytest

from cpmi_dagster.contracts.tables import TABLES, columns_of
from cpmi_dagster.definitions import column_origins
from cpmi_dagster.errors import UsageError
from cpmi_dagster.resources.dag.column_origins import ColumnOrigin


def ends(origin: ColumnOrigin) -> set[str]:
    """The columns that no other stands behind."""
    below = {end for source in origin.origins for end in ends(source)}
    return below or (set() if origin.is_repeated else {origin.column})


def test_a_reward_is_followed_to_the_rows_of_the_source_and_the_references():
    assert {
        "sources.questions.input",
        "sources.reference_problems.answer",
        "sources.step_labels.reward",
    } <= ends(column_origins("labels.step_rewards.reward"))


def test_a_column_is_followed_once():
    seen, left = [], [column_origins("labels/step_rewards.reward")]
    while left:
        each = left.pop()
        seen += [each.column] if each.origins else []
        left += each.origins
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize("key", TABLES)
def test_every_column_of_every_table_can_be_followed(key):
    for column in columns_of(TABLES[key]):
        assert column_origins(f"{key}.{column}").meaning


@pytest.mark.parametrize("column", ["reward", "labels.nothing.reward", "labels.step_rewards.nothing"])
def test_a_column_that_does_not_exist_is_bad_usage(column):
    with pytest.raises(UsageError, match="--column"):
        column_origins(column)
