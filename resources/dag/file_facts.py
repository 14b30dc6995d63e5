"""What the keys of files are the hash of, in words.

fact          name                    value
code version                          2
setting       scoring.templates       4
model         labeler                 miniature:labeler@9107f777503e, float32, 580a12c35a43
input         labels/hard_negatives   e3958c50
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from cpmi_dagster.resources.lake.records import Record

WORDS = {
    "code_version": "code version",
    "settings": "setting",
    "models": "model",
    "sources": "source",
    "inputs": "input",
    "costs": "cost",
}
"""Names of kinds of facts, if a record calls them otherwise."""
BY_PATH = ("settings", "recipe")
"""Kinds of facts that have a row for each setting in them."""
HASH = re.compile("[0-9a-f]{64}")
HASH_CHARACTERS = 8
COLUMNS = ("fact", "name", "value")


def facts_table(records: Sequence[Record]) -> pl.DataFrame:
    """A row for each fact behind some files, with all its values if the files differ in it."""
    values: dict[tuple[str, str], dict[str, None]] = {}
    for record in records:
        for kind, name, value in _facts(record):
            values.setdefault((kind, name), {})[value] = None
    kinds = list(dict.fromkeys(kind for kind, _ in values))
    ordered = sorted(values.items(), key=lambda item: kinds.index(item[0][0]))
    rows = [(kind, name, ", ".join(distinct)) for (kind, name), distinct in ordered]
    return pl.DataFrame(rows, schema=dict.fromkeys(COLUMNS, pl.String()), orient="row")


def _facts(record: Record) -> Iterator[tuple[str, str, str]]:
    """The kind, name and value of each fact behind a file, without its columns, which the schema shows."""
    for kind, facts in record.facts.items():
        if kind == "columns":
            continue
        named = {"": facts} if not isinstance(facts, Mapping) else facts
        for name, value in _by_path(named) if kind in BY_PATH else named.items():
            yield WORDS.get(kind, kind), name, _in_words(value)


def _by_path(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by dotted path, without those that are null."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _by_path(value, f"{path}{name}.")
        elif value is not None:
            yield f"{path}{name}", value


def _in_words(value: Any) -> str:
    """A value of JSON as text, its hashes shortened: `split train, files 56e7d0a8`."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_in_words(each)}" for name, each in value.items() if each not in (None, {}))
    if isinstance(value, list):
        return ("; " if any(isinstance(each, Mapping) for each in value) else ", ").join(map(_in_words, value))
    if isinstance(value, float):
        return f"{value:.6g}"
    return value[:HASH_CHARACTERS] if isinstance(value, str) and HASH.fullmatch(value) else str(value)
