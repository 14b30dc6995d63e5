"""The audit of installed packages: what fails `make lint`, and what does not."""

import json
import subprocess

import pytest

from scripts import audit

SAFE = {"name": "polars", "version": "2.1.0", "vulns": []}
UNKNOWN = {"name": "duckdb", "skip_reason": "Dependency not found"}
UNSAFE = {"name": "torch", "version": "2.13.0", "vulns": [{"id": "CVE-2026-1", "fix_versions": ["2.13.1"]}]}
UNMENDED = {"name": "rich", "version": "15.0.0", "vulns": [{"id": "CVE-2026-2", "fix_versions": []}]}


@pytest.mark.parametrize(
    ("report", "code", "said"),
    [
        ([SAFE, UNKNOWN], 0, "1 packages audited"),
        ([SAFE, UNSAFE], 1, "torch 2.13.0: CVE-2026-1, mended in 2.13.1"),
        ([UNMENDED], 1, "rich 15.0.0: CVE-2026-2, mended in no version yet"),
        ([UNKNOWN], 0, "not audited: no index"),
        (None, 0, "not audited: No module named pip_audit"),
    ],
)
def test_a_known_vulnerability_fails_and_a_missing_index_does_not(monkeypatch, capsys, report, code, said):
    text = "no connection" if report is None else json.dumps({"dependencies": report, "fixes": []})
    monkeypatch.setattr(
        subprocess,
        "run",
        lambda *_, **__: subprocess.CompletedProcess([], code, text, "a\nNo module named pip_audit\n"),
    )
    assert audit.main() == code
    assert said in capsys.readouterr().out
