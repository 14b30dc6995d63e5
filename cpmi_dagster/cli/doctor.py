"""`cpmi doctor`: what this machine has, and whether a profile can run on it."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.markup import escape

from cpmi_dagster.cli import tables
from cpmi_dagster.cli.safe_console import SafeConsole
from cpmi_dagster.errors import CpmiError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cpmi_dagster.resources.commands.doctor_needs import Finding

STYLES = {"fine": "green", "warning": "yellow", "problem": "red"}


def show_findings(console: SafeConsole, findings: "Iterable[Finding]", as_json: bool) -> None:
    """Write what was found, each line as soon as it is known.

    Raises:
        CpmiError: something keeps the profile from running.
    """
    seen = []
    for finding in findings:
        seen.append(finding)
        if not as_json:
            style = STYLES[finding.state]
            advice = f" [dim]→ {escape(finding.advice)}[/]" if finding.advice else ""
            console.print(
                f"[{style}]{finding.state:8}[/] {finding.topic:8} {escape(finding.what)}{advice}", soft_wrap=True
            )
    if as_json:
        tables.show_json(console, [asdict(finding) for finding in seen])
    problems = sum(finding.state == "problem" for finding in seen)
    if problems:
        raise CpmiError(f"{problems} of these must be solved before the profile can run")
