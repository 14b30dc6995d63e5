"""The reference of settings is what the classes say; its examples are read in `test_code_blocks`."""

from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.profiles.spelling import settings_in
from scripts.settings_page import PAGE, page, sections


def test_the_page_is_what_its_script_writes():
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python scripts/settings_page.py`"


def test_every_setting_that_is_no_section_has_a_meaning():
    fields = {
        (model.__name__, name): field for model, _ in sections(Settings) for name, field in model.model_fields.items()
    }
    assert not [place for place, field in fields.items() if not field.description and not settings_in(field.annotation)]
