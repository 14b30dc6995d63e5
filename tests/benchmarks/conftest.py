"""The real sets beside the repository, where they are."""

import gzip
from collections.abc import Callable

import polars as pl
import pytest
from small_run import SHARED_DATA


@pytest.fixture
def real_rows() -> Callable[[str], pl.DataFrame]:
    """Read a file of the real data, or skip."""

    def read(name: str) -> pl.DataFrame:
        path = SHARED_DATA / name
        if not path.is_file():
            pytest.skip(f"the real data are not beside the repository: {path}")
        content = path.read_bytes()
        return pl.read_ndjson(gzip.decompress(content) if path.suffix == ".gz" else content, infer_schema_length=None)

    return read
