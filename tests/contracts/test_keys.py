"""Every table has one key, and every key is a table's."""

from cpmi_dagster.contracts import keys
from cpmi_dagster.contracts.report_tables import ARTIFACT_NAMES
from cpmi_dagster.contracts.tables import TABLES


def test_every_table_but_those_of_the_paper_has_a_named_key():
    named = [value for name, value in vars(keys).items() if name.isupper()]
    assert sorted(named) == sorted(set(TABLES) - {f"reports/{name}" for name in ARTIFACT_NAMES})
