"""YAML files of settings, read with every mistake as one sentence.

seed: 1
seed: 2      ->  mine.yaml is not valid YAML: line 2 has the key `seed` again; remove one of the two
"""

from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node

from cpmi_dagster.errors import SettingsError

TEXT, MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"


def read_yaml(path: Path) -> Any:
    """The values of a YAML file, whose keys are text and stand once in their mapping.

    Raises:
        SettingsError: the file cannot be read, or is not such YAML.
    """
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _StrictLoader)
    except OSError as error:
        raise SettingsError(f"{path} cannot be read ({error.strerror}); correct the path or its permissions") from error
    except RecursionError as error:
        raise SettingsError(f"{path} is nested too deeply; make it flatter") from error
    except (yaml.YAMLError, ValueError) as error:
        raise SettingsError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error


class _StrictLoader(yaml.SafeLoader):
    """Refuses what YAML allows and no settings file means: a key twice, keys that are no text, aliases in a circle."""

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        """Any value, but no alias of one that it is within."""
        node = super().compose_node(parent, index)
        if node is not None and node.end_mark is None:  # an alias of a node that is still being read
            raise yaml.YAMLError(f"line {_line(node)} refers to itself; write the values out")
        return node

    def compose_mapping_node(self, anchor: Any) -> MappingNode:
        """A mapping whose keys are text and differ."""
        mapping = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in mapping.value:
            if key.tag not in (TEXT, MERGE):
                raise yaml.YAMLError(f"the key in line {_line(key)} is no text; put it in quotes or correct it")
            if key.value in seen:
                raise yaml.YAMLError(f"line {_line(key)} has the key `{key.value}` again; remove one of the two")
            seen.add(key.value)
        return mapping


def _line(node: Node) -> int:
    return node.start_mark.line + 1
