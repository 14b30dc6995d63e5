"""Parses values of options: `--shards 0-3,7`, `--conditioning all`, `--map gold_answer=answer`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cpmi_dagster.contracts.contexts import CONDITIONINGS
from cpmi_dagster.errors import UsageError

if TYPE_CHECKING:
    from cpmi_dagster.profiles.settings import Settings


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
        UsageError: a text has another form.
    """
    fields = {}
    for text in texts:
        name, _, field = text.partition("=")
        if not name or not field:
            raise UsageError(f"--map {text}: write our name and the file's, as in gold_answer=answer")
        fields[name] = field
    return fields
