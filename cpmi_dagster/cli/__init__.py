"""The `cpmi` command."""

from cpmi_dagster.cli.commands import app, main

__all__ = ["app", "main"]
