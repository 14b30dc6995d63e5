"""A model's folder to change."""

import shutil
from pathlib import Path

import pytest

from cpmi_dagster.miniature.names import MODEL_FOLDERS


@pytest.fixture
def folder(tmp_path) -> Path:
    """A copy of the embedded prover."""
    shutil.copytree(MODEL_FOLDERS["prover"], tmp_path / "model")
    return tmp_path / "model"
