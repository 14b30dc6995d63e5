"""The table of cards, what is said of a wrong one, and tokens to seconds against figures worked out by hand."""

import pytest
import torch
import yaml

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.planning.hardware import SHIPPED, default_hardware, load_hardware
from cpmi_dagster.planning.shapes import ModelShape

TABLE = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
MINE = TABLE["h100-80gb"]
# a body of a million parameters, a head of 100,000; 128 numbers cached a token; float32
SHAPE = ModelShape(1_000_000, 100_000, 1_200_000, 128, "float32", 4096)


def write(path, **entries):
    path.write_text(yaml.safe_dump(entries), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", TABLE)
def test_every_shipped_card_can_be_planned_with(name):
    hardware = load_hardware(name)
    assert hardware.teraflops.bfloat16 >= hardware.teraflops.float32 > 0
    assert hardware.bandwidth_gb_per_s > 1


def test_a_file_of_ones_own_is_read(tmp_path):
    file = write(tmp_path / "my.yaml", mine={**MINE, "usd_per_hour": 1.25})
    assert load_hardware(file).usd_per_hour == 1.25
    several = write(tmp_path / "several.yaml", mine=MINE, other={**MINE, "usd_per_hour": 9})
    assert load_hardware(f"{several}:other").usd_per_hour == 9


def test_unknown_hardware_is_answered_with_what_there_is(tmp_path):
    with pytest.raises(SettingsError, match="`h900`; give one of h100-80gb, h200-141gb"):
        load_hardware("h900")
    several = write(tmp_path / "several.yaml", mine=MINE, other=MINE)
    for chosen in (several, f"{several}:third"):
        with pytest.raises(SettingsError, match="contains mine, other"):
            load_hardware(chosen)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"usd_per_hour": None}, "`mine`: `usd_per_hour` is missing"),
        ({"teraflops": {"float32": 1}}, r"`teraflops.bfloat16` is missing"),
        ({"usd_per_hour": "cheap"}, "`usd_per_hour` is 'cheap'"),
        ({"forward_utilisation": 40}, "`forward_utilisation` is 40"),
        ({"price": 3}, "`price` is not a key"),
    ],
)
def test_a_wrong_key_is_named(tmp_path, change, named):
    entry = {name: value for name, value in {**MINE, **change}.items() if value is not None}
    with pytest.raises(SettingsError, match=named):
        load_hardware(write(tmp_path / "my.yaml", mine=entry))


@pytest.mark.parametrize("text", ["a: [", "just words", "", "mine: 3"])
def test_a_file_that_is_no_table_is_refused(tmp_path, text):
    (tmp_path / "my.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=r"my\.yaml"):
        load_hardware(str(tmp_path / "my.yaml"))


@pytest.mark.parametrize(
    ("model", "card", "hardware"),
    [
        ({"name": "miniature:labeler"}, "NVIDIA L4", "laptop-cpu"),
        ({"name": "Qwen/Qwen3-8B-Base", "device": "cpu"}, "NVIDIA L4", "laptop-cpu"),
        ({"name": "Qwen/Qwen3-8B-Base"}, None, "laptop-cpu"),
        ({"name": "Qwen/Qwen3-8B-Base"}, "NVIDIA L4", "l4-24gb"),
        ({"name": "Qwen/Qwen3-8B-Base"}, "NVIDIA X900", "h100-80gb"),
    ],
)
def test_a_plan_is_for_this_machine(model, card, hardware, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: card is not None)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: card)
    assert default_hardware(LanguageModel(**model)) == hardware


def test_reading_takes_its_flops_over_what_the_card_reaches(card):
    # 2 x 1e6 x 1000 + 2 x 1e5 x 10 = 2.002e9 FLOP at 0.5e12 FLOP/s
    assert card.seconds(SHAPE, read=1000, projected=10) == pytest.approx(2.002e9 / 0.5e12)


def test_a_small_batch_waits_for_memory(card):
    # 4.8e6 bytes of weights for each of 100 / 4 passes, 128 x 4 bytes for each of 6,000 positions, at 1e9 B/s
    moved = 4.8e6 * 25 + 512 * 6_000
    assert card.seconds(SHAPE, 0, 0, 100, 6_000, batch=4) == pytest.approx(moved / 1e9 / 0.25)


def test_a_large_batch_waits_for_arithmetic(card):
    # 2 x 1.1e6 x 1e6 = 2.2e12 FLOP at 1e12 FLOP/s; the weights are read 1e6 / 1e5 times: 4.8e7 bytes
    assert card.seconds(SHAPE, 0, 0, 1_000_000, batch=100_000) == pytest.approx(2.2 / 0.25)
