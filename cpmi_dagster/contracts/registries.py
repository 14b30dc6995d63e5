"""Registries: entries by unique names."""

from collections.abc import Iterable
from typing import Protocol, TypeVar


class Named(Protocol):
    """An entry of a registry."""

    @property
    def name(self) -> str:
        """Unique in its registry."""
        ...


Entry = TypeVar("Entry", bound=Named)


def by_name(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Entries by name, in the order given.

    Raises:
        ValueError: two entries have the same name.
    """
    registry: dict[str, Entry] = {}
    for entry in entries:
        if entry.name in registry:
            raise ValueError(f"two entries of one registry are called `{entry.name}`; rename one of them")
        registry[entry.name] = entry
    return registry
