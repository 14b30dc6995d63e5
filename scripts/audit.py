"""Known vulnerabilities of the installed packages, as pip-audit finds them; says so where no index of them answers.

python scripts/audit.py
torch 2.13.0: CVE-2026-1234, mended in 2.13.1                        exit code 1
not audited: no index of vulnerabilities knows these packages        exit code 0
"""

import json
import subprocess
import sys
from typing import NamedTuple

COMMAND = ("-m", "pip_audit", "--local", "--skip-editable", "--progress-spinner", "off", "--format", "json")


class Audit(NamedTuple):
    """What was found: a line for each vulnerability, and how many packages were looked up."""

    found: list[str]
    audited: int


def read_report(text: str) -> Audit | None:
    """What a report of pip-audit says; None where it is none, as when no index answers."""
    try:
        packages = [package for package in json.loads(text)["dependencies"] if "vulns" in package]
    except (ValueError, KeyError, TypeError):
        return None
    return Audit([_line(package, each) for package in packages for each in package["vulns"]], len(packages))


def _line(package: dict, vulnerability: dict) -> str:
    mended = ", ".join(vulnerability["fix_versions"]) or "no version yet"
    return f"{package['name']} {package['version']}: {vulnerability['id']}, mended in {mended}"


def main() -> int:
    """Print what was found.

    Returns:
        The exit code: 1 where a package has a known vulnerability.
    """
    done = subprocess.run([sys.executable, *COMMAND], capture_output=True, text=True)
    audit = read_report(done.stdout)
    if audit is None or not audit.audited:
        why = done.stderr.strip().splitlines()[-1:] if audit is None else []
        print(": ".join(["not audited", *(why or ["no index of vulnerabilities knows these packages"])]))
        return 0
    print("\n".join([*audit.found, f"{audit.audited} packages audited"]))
    return 1 if audit.found else 0


if __name__ == "__main__":
    sys.exit(main())
