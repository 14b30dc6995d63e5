"""A bit that flips anywhere in a file of the lake is found."""

from pathlib import Path

import polars as pl
import pytest

from cpmi_dagster.resources.lake.sealed_parquet import DamagedFile, checked_seal, sealed

ROWS = pl.DataFrame({"trajectory_id": [f"t{number}" for number in range(200)], "logprob": [0.5, 1.5] * 100})


def write_sealed(frame: pl.DataFrame, path: Path, footer: dict[str, str]) -> str:
    data, seal = sealed(frame, footer)
    path.write_bytes(data)
    return seal


def test_a_sealed_file_is_parquet_like_any_other(tmp_path):
    path = tmp_path / "rows.parquet"
    seal = write_sealed(ROWS, path, {"cpmi": "{}"})
    assert pl.read_parquet(path).equals(ROWS)
    assert pl.read_parquet_metadata(path)["cpmi"] == "{}"
    assert checked_seal(path) == seal


def test_every_flipped_bit_is_found(tmp_path, flip):
    path = tmp_path / "rows.parquet"
    write_sealed(ROWS, path, {"cpmi": '{"cost": 12}'})
    for place in range(path.stat().st_size):
        flip(path, place)
        with pytest.raises(DamagedFile):
            checked_seal(path)
        flip(path, place)
    assert checked_seal(path)


def test_a_file_without_a_seal_is_damaged(tmp_path):
    ROWS.write_parquet(tmp_path / "rows.parquet", metadata={"cpmi": "{}"})
    with pytest.raises(DamagedFile):
        checked_seal(tmp_path / "rows.parquet")


def test_rows_that_hold_a_seal_of_their_own_do_no_harm(tmp_path):
    rows = pl.DataFrame({"answer": ["sha256:" + "0" * 64, "cpmi.seal"]})
    write_sealed(rows, tmp_path / "rows.parquet", {})
    assert checked_seal(tmp_path / "rows.parquet")
