"""YAML files of settings: what is refused, and with which words."""

import pytest

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.files.yaml_files import read_yaml


def test_merged_keys_may_be_replaced(tmp_path):
    (tmp_path / "a.yaml").write_text("x: {y: &a {b: 1, c: 2}}\nz: {<<: *a, b: 3}\n", encoding="utf-8")
    assert read_yaml(tmp_path / "a.yaml")["z"] == {"b": 3, "c": 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 1\nseed: 2\n", "line 2 has the key `seed` again"),
        ("a: {b: 1, b: 2}\n", "line 1 has the key `b` again"),
        ("5: 6\n", "the key in line 1 is not text"),
        ("null: 6\n", "the key in line 1 is not text"),
        ("? [1]\n: 6\n", "the key in line 1 is not text"),
        ("a: 1\nsources: &a {math_shepherd: *a}\n", "line 2 refers to itself"),
        ("a: &a [*a]\n", "line 1 refers to itself"),
        ("[" * 10_000, "nested too deeply"),
        ("a: 2026-13-45\n", "month must be in 1..12"),
        ("a: \0\n", "special characters are not allowed"),
        ("a: [1\n", "is not valid YAML"),
    ],
)
def test_a_mistake_in_a_yaml_file_is_one_sentence(tmp_path, text, message):
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=message) as caught:
        read_yaml(tmp_path / "a.yaml")
    assert str(tmp_path / "a.yaml") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_aliases_that_multiply_are_refused_at_once(tmp_path):
    levels = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    (tmp_path / "a.yaml").write_text(f"a0: &a0 [x, x]\n{levels}", encoding="utf-8")
    with pytest.raises(SettingsError, match="its aliases expand it to more than 100,000 values"):
        read_yaml(tmp_path / "a.yaml")


def test_a_file_that_cannot_be_read_as_text_is_named(tmp_path):
    (tmp_path / "a.yaml").write_bytes(b"a: \xff\n")
    for name, message in (("a.yaml", "is not UTF-8 text"), ("none.yaml", "cannot be read")):
        with pytest.raises(SettingsError, match=message):
            read_yaml(tmp_path / name)
