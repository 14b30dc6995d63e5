"""Templates and the devcontainer name commands and files that exist, in the form their readers take."""

import json
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_an_issue_form_has_what_github_asks_for(path):
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= set(form)
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert fields and all(field["id"] and field["attributes"]["label"] for field in fields)
    assert len({field["id"] for field in fields}) == len(fields)
    named = re.findall(r"docs/\w+\.md", path.read_text(encoding="utf-8"))
    assert not [page for page in named if not (ROOT / page).exists()]


def test_the_devcontainer_installs_what_the_tests_need_by_a_target_of_the_makefile():
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    assert container["postCreateCommand"] == "make .venv/.installed-dev"
    assert re.search(r"^\$\(STAMP\)-dev:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
