"""The documentation as a site: it builds without a dead link, and asks no other host for anything."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("zensical", reason="the extra `dev` is not installed")

ROOT = Path(__file__).resolve().parents[2]
LOADED = re.compile(r"<(?:script|img|link rel=\"?(?:stylesheet|icon|preload))[^>]*(?:src|href)=\"?(https?:[^\s>\"]+)")


def test_the_site_builds_with_every_page_in_its_menu_and_loads_nothing_from_elsewhere(tmp_path):
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    (tmp_path / "cpmi_dagster").symlink_to(ROOT / "cpmi_dagster")
    zensical = shutil.which("zensical", path=str(Path(sys.executable).parent)) or "zensical"
    done = subprocess.run([zensical, "build", "--strict", "--clean"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "build" / "docs"
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    assert not [(page.name, url) for page in pages for url in LOADED.findall(page.read_text(encoding="utf-8"))]
    assert "negative_answers" in (site / "score_and_judge.html").read_text(encoding="utf-8")
    menu = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    sources = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert not [page for page in sources if f'"{page}"' not in menu]
