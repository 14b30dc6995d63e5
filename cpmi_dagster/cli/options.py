"""What commands share: the application, the two consoles, options of several commands, and what their texts mean.

--shards 0-3,7        --conditioning all        --map gold_answer=answer
"""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cpmi_dagster.cli.console import SafeConsole
from cpmi_dagster.contracts.contexts import CONDITIONINGS
from cpmi_dagster.errors import UsageError
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


def parse_shards(text: str | None, settings: "Settings") -> list[str]:
    """Partition keys of `0-3` or `0,2,5-7`; all shards if the text is None.

    Raises:
        UsageError: the text has another form, or the profile has no such shard.
    """
    if text is None:
        return settings.shard_keys
    numbers: set[int] = set()
    for item in text.split(","):
        first, dash, last = item.strip().partition("-")
        if not first.isdecimal() or (dash and (not last.isdecimal() or int(last) < int(first))):
            raise UsageError(f"--shards {text}: write numbers and ranges, such as 0-3 or 0,2,5-7")
        if int(last or first) >= settings.shards:
            raise UsageError(f"--shards {text}: profile `{settings.profile}` has shards 0 to {settings.shards - 1}")
        numbers |= set(range(int(first), int(last or first) + 1))
    return [settings.shard_keys[number] for number in sorted(numbers)]


def parse_conditionings(text: str) -> list[str]:
    """Conditionings of `all` or comma-separated names, in the order of `CONDITIONINGS`.

    Raises:
        UsageError: a name is not a conditioning.
    """
    names = list(CONDITIONINGS) if text == "all" else [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in CONDITIONINGS]
    if unknown:
        raise UsageError(f"--conditioning {unknown[0]}: choose from {', '.join(CONDITIONINGS)}, or all")
    return [name for name in CONDITIONINGS if name in names]


def parse_fields(texts: Sequence[str]) -> dict[str, str]:
    """The file's field names by ours: `["gold_answer=answer"]` gives `{"gold_answer": "answer"}`.

    Raises:
        UsageError: a text has another form, or a name is not one of ours.
    """
    from cpmi_dagster.trajectories.forms import check_name

    fields = {}
    for text in texts:
        name, _, field = text.partition("=")
        if not name or not field:
            raise UsageError(f"--map {text}: write our name and the file's, as in gold_answer=answer")
        try:
            check_name(name)
        except ValueError as error:
            raise UsageError(f"--map {text}: {error}") from error
        fields[name] = field
    return fields
