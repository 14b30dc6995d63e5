"""Reads YAML files of settings; every mistake is one sentence.

seed: 1
seed: 2      ->  mine.yaml is not valid YAML: line 2 has the key `seed` again; remove one of the two
"""

import shlex
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node

from cpmi_dagster.errors import SettingsError

DATA_SUFFIXES = (".jsonl", ".parquet", ".jsonl.gz", ".json.gz")
TEXT, MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"


def read_yaml(path: Path) -> Any:
    """The values of a YAML file whose keys are text, each once in its mapping.

    Raises:
        SettingsError: the file cannot be read, or is no such YAML.
    """
    if path.is_file() and path.name.lower().endswith(DATA_SUFFIXES):
        given = shlex.quote(str(path))
        raise SettingsError(
            f"{path} is data, not settings; `cpmi init --input {given} --model …` writes a profile for it"
        )
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _StrictLoader)
    except OSError as error:
        raise SettingsError(f"{path} cannot be read ({error.strerror}); correct the path or its permissions") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not UTF-8 text; give a YAML file, or save it as UTF-8") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise SettingsError(f"{path} is not valid YAML: {place}{error.problem}; correct it") from error
    except (yaml.YAMLError, ValueError) as error:
        raise SettingsError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error


class _StrictLoader(yaml.SafeLoader):
    """Refuses repeated keys, and keys that are not text."""

    def compose_mapping_node(self, anchor: Any) -> MappingNode:
        """A mapping whose keys are text and all different."""
        mapping = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in mapping.value:
            if key.tag not in (TEXT, MERGE):
                raise yaml.YAMLError(f"the key in line {_line(key)} is not text; put it in quotes or correct it")
            if key.value in seen:
                raise yaml.YAMLError(f"line {_line(key)} has the key `{key.value}` again; remove one of the two")
            seen.add(key.value)
        return mapping


def _line(node: Node) -> int:
    return node.start_mark.line + 1
