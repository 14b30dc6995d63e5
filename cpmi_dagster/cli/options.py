"""What commands share: the application, options of several commands, and the two consoles."""

import os
import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cpmi_dagster.cli.safe_console import SafeConsole
from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.installed import own_version
from cpmi_dagster.models.settings import DtypeOrAuto
from cpmi_dagster.trajectories.steps import Splitting

if TYPE_CHECKING:
    from cpmi_dagster.profiles.settings import Settings

app = typer.Typer(name="cpmi", no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="markdown")

GIVEN = {"profile": ""}
"""The option of the profile of this command, e.g. ` -p mine.yaml`, for the commands that its errors suggest."""
ProfileOption = Annotated[
    str | None,
    typer.Option(
        "--profile",
        "-p",
        help="Shipped profile or YAML file; by default CPMI_PROFILE, else that of the last run in this folder, else "
        "miniature.",
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
FormatOption = Annotated[Literal["table", "csv", "json"], typer.Option(help="Output format.")]
SplitOption = Annotated[Splitting, typer.Option(help="Where a solution that is one text is split into steps.")]
MapOption = Annotated[
    list[str] | None, typer.Option(help="A field by another name, e.g. gold_answer=target; may be repeated.")
]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")]
DtypeOption = Annotated[DtypeOrAuto, typer.Option(help="Precision of the weights.")]
# if a stream is closed, the next file opened gets its descriptor, and prints land in that file
for _name, _mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
    if getattr(sys, _name) is None:
        setattr(sys, _name, open(os.devnull, _mode))  # noqa: SIM115
# without a terminal rich assumes 80 columns, which is too few for the tables
WIDE = 200
OUT = SafeConsole(width=None if sys.stdout.isatty() else WIDE)
ERR = SafeConsole(stderr=True, width=None if sys.stderr.isatty() else WIDE)


def _show_version(wanted: bool) -> None:
    if wanted:
        OUT.print(f"cpmi {own_version()}", highlight=False)
        raise typer.Exit


@app.callback()
def cpmi(
    _: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Step-level reward labels for reasoning data, without Monte-Carlo rollouts."""


def load_profile(given: str | None, quiet: bool = False, makes: bool = False) -> "Settings":
    """Load the given profile, else CPMI_PROFILE, that of the last run in this folder, or the demo's.

    Args:
        quiet: do not say which profile is taken.
        makes: the command makes tables, so it says if they are the demo's.
    """
    from cpmi_dagster.profiles.settings import DEFAULT_PROFILE, load_settings
    from cpmi_dagster.resources.lake.home_file import known_homes

    if not given and not environment_variable("CPMI_PROFILE"):
        given = next((home.profile for home in known_homes()), None)
        if given and given != DEFAULT_PROFILE and not quiet:
            ERR.warn(f"Profile {given}, as in the last run in this folder; -p names another.")
        if not given and makes and not quiet:
            ERR.warn(
                f"No profile is named (-p): this is the demo, profile {DEFAULT_PROFILE}. "
                "`cpmi init --input FILE --model MODEL` writes a profile for your own solutions."
            )
    settings = load_settings(given)
    GIVEN["profile"] = settings.profile_option
    return settings
