"""`python -m cpmi_dagster` is `cpmi`."""

from cpmi_dagster.cli.commands import main

main()
