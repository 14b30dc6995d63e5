"""The table of cards: what is found in it, and what is said of one that is wrong."""

import pytest
import yaml

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.planning.hardware import SHIPPED, default_hardware, load_hardware

MINE = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))["h100-80gb"]


def write(path, **entries):
    path.write_text(yaml.safe_dump(entries), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", yaml.safe_load(SHIPPED.read_text(encoding="utf-8")))
def test_every_shipped_card_can_be_planned_with(name):
    hardware = load_hardware(name)
    assert hardware.flops("bfloat16") >= hardware.flops("float32") > hardware.bandwidth > 1e9


def test_a_cards_figures_are_read_in_plain_units():
    hardware = load_hardware("h200-141gb")
    assert (hardware.flops("bfloat16"), hardware.bandwidth) == (989e12, 4.8e12)


def test_a_file_of_ones_own_is_read(tmp_path):
    file = write(tmp_path / "my.yaml", mine={**MINE, "usd_per_hour": 1.25})
    assert load_hardware(file).card.usd_per_hour == 1.25
    several = write(tmp_path / "several.yaml", mine=MINE, other={**MINE, "usd_per_hour": 9})
    assert load_hardware(f"{several}:other").card.usd_per_hour == 9


def test_unknown_hardware_is_told_what_there_is(tmp_path):
    with pytest.raises(SettingsError, match="no hardware `h900`; give one of h100-80gb, h200-141gb"):
        load_hardware("h900")
    several = write(tmp_path / "several.yaml", mine=MINE, other=MINE)
    for chosen in (several, f"{several}:third"):
        with pytest.raises(SettingsError, match=r"contains mine, other; choose one, such as .*several\.yaml:mine"):
            load_hardware(chosen)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"usd_per_hour": None}, "`mine`: the key `usd_per_hour` is missing"),
        ({"teraflops": {"float32": 1}}, r"the key `teraflops.bfloat16` is missing"),
        ({"usd_per_hour": "cheap"}, "`usd_per_hour` is 'cheap'"),
        ({"forward_utilisation": 40}, "`forward_utilisation` is 40"),
        ({"price": 3}, "`price` is not a key"),
    ],
)
def test_a_wrong_key_is_named(tmp_path, change, message):
    entry = {name: value for name, value in {**MINE, **change}.items() if value is not None}
    with pytest.raises(SettingsError, match=message):
        load_hardware(write(tmp_path / "my.yaml", mine=entry))


@pytest.mark.parametrize("text", ["a: [", "just words", "", "mine: 3"])
def test_a_file_that_is_no_table_is_refused(tmp_path, text):
    (tmp_path / "my.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=r"hardware file|not valid YAML"):
        load_hardware(str(tmp_path / "my.yaml"))


def test_small_models_are_planned_on_a_laptop_and_others_on_a_gpu():
    assert default_hardware(LanguageModel(name="miniature:labeler")) == "laptop-cpu"
    assert default_hardware(LanguageModel(name="Qwen/Qwen3-8B-Base", device="cpu")) == "laptop-cpu"
    assert default_hardware(LanguageModel(name="Qwen/Qwen3-8B-Base")) == "h100-80gb"
