"""A run that does not reach the reports shows no figure of an earlier one as its own."""

import re

import pytest
from typer.testing import CliRunner

from cpmi_dagster.cli.commands import app

pytestmark = pytest.mark.slow
HEADLINE, LABELS = "measured, with 95 % intervals", "labels made"
OF_EARLIER = r"Stale     (.*), as of 20\d\d-\d\d-\d\d \d\d:\d\d UTC: .*{}.*; `cpmi run -p .*` makes it again"


ALPHA, SAMPLES = {"CPMI_REWARDS__ALPHA": "0.3"}, {"CPMI_BENCHMARKS__BOOTSTRAP_SAMPLES": "40"}


@pytest.mark.parametrize(
    ("arguments", "changed", "shown", "why"),
    [
        ("--until labels", {}, {HEADLINE}, None),
        ("--only sources", ALPHA, set(), "rewards.alpha: 1.0, the profile has 0.3"),
        ("--only labels", ALPHA, {LABELS}, "has other inputs"),
        ("--until labels", SAMPLES, {LABELS}, "benchmarks.bootstrap_samples: 50, the profile has 40"),
        ("--until reports/figures", SAMPLES, {HEADLINE}, "benchmarks.bootstrap_samples: 50, the profile has 40"),
    ],
)
def test_what_is_shown_at_the_end_is_what_the_settings_give(own_copy, small_profile, arguments, changed, shown, why):
    variables = {"CPMI_HOME": str(own_copy.home), **changed}
    found = CliRunner().invoke(app, ["run", "-p", small_profile, *arguments.split()], env=variables)
    assert found.exit_code == 0, found.output
    assert {words for words in (HEADLINE, LABELS) if words in found.stdout} == shown
    said = re.search(OF_EARLIER.format(why), found.stdout)
    assert (said is None) == (why is None) == ("Stale " not in found.stdout), found.stdout
    assert ("labels" in said[1].split(", ") if said else False) == (not shown)
