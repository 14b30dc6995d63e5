"""CONTRIBUTING.md: the stage that it shows is that of the package."""

import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_stage_that_is_shown_is_the_one_that_runs():
    blocks = re.findall(
        r"^   ```python\n(.*?)^   ```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL | re.MULTILINE
    )
    [shown] = [textwrap.dedent(block) for block in blocks if "@stage(" in block]
    assert shown in (ROOT / "cpmi_dagster" / "assets" / "labels.py").read_text()
