"""What `pip install` of the package puts on a machine."""

import shutil
import subprocess
import sys
import zipfile
from glob import glob
from pathlib import Path

import pytest

builder = pytest.importorskip("hatchling.builders.wheel", reason="the extra `dev` is not installed")
sdist = pytest.importorskip("hatchling.builders.sdist", reason="the extra `dev` is not installed")

ROOT = Path(__file__).resolve().parents[1]
IN_PLACE = """
from pathlib import Path
import cpmi_dagster.definitions
from cpmi_dagster.resources.commands import ui
assert ui.WORKSPACE.is_file(), ui.WORKSPACE
print(Path(ui.__file__).parents[3])
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder into which the wheel of the source distribution is unpacked, as pip does."""
    folder = tmp_path_factory.mktemp("wheel")
    (packed,) = sdist.SdistBuilder(str(ROOT)).build(directory=str(folder))
    shutil.unpack_archive(packed, folder)
    (source,) = (path for path in folder.iterdir() if path.is_dir())
    (wheel,) = builder.WheelBuilder(str(source)).build(directory=str(folder))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site-packages")
    return folder / "site-packages"


def test_the_wheel_installs_one_package_with_all_of_its_files(installed):
    assert {place.name for place in installed.iterdir() if place.suffix != ".dist-info"} == {"cpmi_dagster"}
    for name in glob("cpmi_dagster/**/*", root_dir=ROOT, recursive=True):
        if "__pycache__" not in name:
            assert (installed / name).exists(), name


@pytest.mark.slow
def test_the_installed_package_finds_its_workspace_without_the_repository(installed, tmp_path):
    environment = {"PYTHONPATH": str(installed), "CPMI_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-P", "-c", IN_PLACE]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(installed)
