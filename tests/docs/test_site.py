"""The documentation as a site: it builds without a dead link, and asks no other host for anything."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("zensical", reason="the extra `dev` is not installed")

ROOT = Path(__file__).resolve().parents[2]
LOADED = re.compile(r"<(?:script|img|link rel=\"?(?:stylesheet|icon|preload))[^>]*(?:src|href)=\"?(https?:[^\s>\"]+)")


@pytest.fixture
def copy(tmp_path) -> Path:
    """The pages, and the code whose docstrings they show."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    (tmp_path / "cpmi_dagster").symlink_to(ROOT / "cpmi_dagster")
    return tmp_path


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [shutil.which("zensical", path=str(ROOT / ".venv" / "bin")) or "zensical", "build", "--strict", "--clean"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_the_site_builds_with_every_page_in_its_menu_and_loads_nothing_from_elsewhere(copy):
    done = build(copy)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list((copy / "build" / "docs").rglob("*.html"))
    assert len(pages) > 30
    assert not [(page.name, url) for page in pages for url in LOADED.findall(page.read_text(encoding="utf-8"))]
    assert "negative_answers" in (copy / "build" / "docs" / "score_and_judge.html").read_text(encoding="utf-8")


def test_every_page_is_in_the_menu():
    menu = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert not [page for page in pages if f'"{page}"' not in menu]


def test_a_link_to_a_heading_that_is_not_there_fails(copy):
    with (copy / "docs" / "index.md").open("a", encoding="utf-8") as page:
        page.write("\n[nowhere](tutorial.md#nowhere)\n")
    assert build(copy).returncode != 0
