"""The rooms of the repository: files, lines, and which rooms each imports; says so where an import runs upwards.

    python scripts/rooms.py

The order is that of the import contract in `pyproject.toml`, which `make lint` checks.
"""

import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import grimp

REPOSITORY = Path(__file__).resolve().parents[1]
METHOD = "cpmi_dagster"


def rooms_in_order() -> list[str]:
    """The rooms from top to bottom, as the import contracts list them."""
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = (layer.split(" | ") for layer in contracts["contracts"][0]["layers"])
    return [f"{METHOD}.{room}" for rooms in layers for room in rooms]


def room_of(module: str, rooms: list[str]) -> str | None:
    """The room a module is in; None for the entry points beside them."""
    return next((room for room in rooms if module == room or module.startswith(f"{room}.")), None)


def imports_of_rooms(rooms: list[str]) -> dict[str, set[str]]:
    """By room, the rooms that its modules import."""
    graph = grimp.build_graph(METHOD, exclude_type_checking_imports=True, cache_dir=None)
    found: dict[str, set[str]] = defaultdict(set)
    for module in graph.modules:
        room = room_of(module, rooms)
        for imported in graph.find_modules_directly_imported_by(module):
            other = room_of(imported, rooms)
            if room and other and room != other:
                found[room].add(other)
    return found


def main() -> None:
    """Write the table; exit with 1 where an import runs upwards anywhere but in `definitions`."""
    rooms = rooms_in_order()
    imports, upwards = imports_of_rooms(rooms), []
    write = sys.stdout.write
    write(f"{'room':<28}{'files':>6}{'lines':>7}  imports\n")
    for room in rooms:
        place = REPOSITORY / room.replace(".", "/")
        files = sorted(place.resolve().rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
        lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
        below = sorted(imports[room], key=rooms.index)
        upwards += [(room, other) for other in below if rooms.index(other) < rooms.index(room)]
        names = ", ".join(other.removeprefix(f"{METHOD}.") for other in below)
        write(f"{room.removeprefix(f'{METHOD}.'):<28}{len(files):>6}{lines:>7}  {names}\n")
    write(f"{sum(map(len, imports.values()))} arrows between {len(rooms)} rooms\n")
    wrong = [f"{room} imports {other}" for room, other in upwards if room != f"{METHOD}.definitions"]
    sys.exit("\n".join(wrong) if wrong else 0)


if __name__ == "__main__":
    main()
