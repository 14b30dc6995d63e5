"""The reference of settings is what the classes say, and its examples are profiles."""

import pytest
import yaml

from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.profiles.spelling import settings_in
from scripts.settings_page import EXAMPLES, PAGE, page, sections


def test_the_page_is_what_its_script_writes():
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python scripts/settings_page.py`"


def test_every_setting_that_is_no_section_has_a_meaning():
    fields = {
        (model.__name__, name): field for model, _ in sections(Settings) for name, field in model.model_fields.items()
    }
    assert not [place for place, field in fields.items() if not field.description and not settings_in(field.annotation)]


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_is_read(name, tmp_path):
    own = yaml.safe_load(EXAMPLES[name])
    recipes = {} if "recipes" in own else {"recipes": [{"name": "a", "reward_type": "cpmi"}]}
    if name == "Answers":
        (tmp_path / "my_answers.py").write_text("def same(gold, other):\n    return gold == other\n")
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"extends": "miniature", **recipes, **own}), encoding="utf-8")
    assert load_settings(tmp_path / "mine.yaml")
