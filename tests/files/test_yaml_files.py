"""YAML files of settings: what is refused, and with which words."""

import pytest

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.files.yaml_files import read_yaml

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))


def test_merged_keys_may_be_replaced(tmp_path):
    (tmp_path / "a.yaml").write_text("x: {y: &a {b: 1, c: 2}}\nz: {<<: *a, b: 3}\n", encoding="utf-8")
    assert read_yaml(tmp_path / "a.yaml")["z"] == {"b": 3, "c": 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 1\nseed: 2\n", "line 2 has the key `seed` again"),
        ("5: 6\n", "the key in line 1 is not text"),
        ("a: 1\nsources: &a {math_shepherd: *a}\n", "line 2 refers to itself"),
        ("[" * 10_000, "nested too deeply"),
        (BOMB, "its aliases expand it to more than 100,000 values"),
        ("a: 2026-13-45\n", "month must be in 1..12"),
        ("a: \0\n", "special characters are not allowed"),
        ("a: [1\n", "is not valid YAML"),
        (b"a: \xff\n", "is not UTF-8 text"),
        (None, "cannot be read"),
    ],
)
def test_a_mistake_in_a_yaml_file_is_one_sentence(tmp_path, text, message):
    file = tmp_path / "a.yaml"
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SettingsError, match=message) as caught:
        read_yaml(file)
    assert str(file) in str(caught.value) and "\n" not in str(caught.value)
