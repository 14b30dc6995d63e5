"""Writes a first profile for a user's trajectories: YAML with a comment for every choice.

    starter_profile(look, "mine", {"path": "./rows.jsonl"}, "Qwen/Qwen3-8B-Base")
    -> "… shards: 4 # parts that are labelled one by one …\\nsources:\\n  trajectories: {path: ./rows.jsonl} # …"

It extends no other profile, so that nothing of the embedded world gets in. If no row has a gold answer, the
reference problems of the profile `paper` stand there, commented out until the user confirms that they fit.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.files.yaml_files import read_yaml
from cpmi_dagster.profiles.first_look import MOST_SHARDS, TRAJECTORIES_PER_SHARD, FirstLook
from cpmi_dagster.profiles.profile_files import PROFILES, check_name
from cpmi_dagster.rewards.registry import REWARD_TYPES

TEMPLATE = "starter.yaml.j2"
SUFFIXES = (".yaml", ".yml")
CHEAP_TYPES = [name for name, entry in REWARD_TYPES.items() if entry.reads_no_gold or entry.is_free]
"""Controls that cost one more forward pass over the solutions, or nothing."""


def starter_profile(
    look: FirstLook,
    name: str,
    source: Mapping[str, Any],
    model: str,
    has_gpu: bool = True,
    truth: Mapping[str, Any] | None = None,
) -> str:
    """The text of a profile that labels all trajectories and trains two reward models on them.

    Args:
        look: counts of the trajectories.
        name: name of the profile.
        source: settings of the trajectories; a path is relative to the folder of the profile.
        model: labeler and backbone: a folder (likewise relative), a hub id or `miniature:NAME`.
        has_gpu: without one, the head of the reward model is trained alone.
        truth: settings of judgements in a file of their own.
    """
    from jinja2 import Environment, StrictUndefined

    paper = read_yaml(PROFILES / "paper.yaml")["sources"]
    environment = Environment(trim_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined)
    return environment.from_string((PROFILES / TEMPLATE).read_text(encoding="utf-8")).render(
        look=look,
        per_shard=TRAJECTORIES_PER_SHARD,
        most_shards=MOST_SHARDS,
        name=_one_line({"profile": name}, flow=False),
        source=_one_line(source),
        truth=truth and _one_line(truth),
        model=_one_line({"name": model, "dtype": "auto"}),
        references=[_one_line(reference) for reference in paper["references"]],
        cheap_types=CHEAP_TYPES,
        has_gpu=has_gpu,
        rollout_types=[entry.name for entry in REWARD_TYPES.values() if entry.demand.policy_steps != 0],
        prover_types=[entry.name for entry in REWARD_TYPES.values() if entry.demand.prover_steps != 0],
    )


def check_own_name(profile: Path) -> None:
    """Check the file name of a user's profile.

    Raises:
        SettingsError: it does not end in .yaml, is no plain file name, or is that of a shipped profile, whose results
            would be mixed with the user's.
    """
    name = profile.stem
    if profile.suffix not in SUFFIXES:
        raise SettingsError(f"--output {profile} is not the name of a profile; give one such as {name or 'mine'}.yaml")
    check_name(name, name)
    if (PROFILES / f"{name}.yaml").is_file():
        raise SettingsError(f"`{name}` is the name of a shipped profile; give --output another file name")


def _one_line(values: Mapping[str, Any], flow: bool = True) -> str:
    text = yaml.safe_dump(values, default_flow_style=flow, sort_keys=False, allow_unicode=True, width=float("inf"))
    return text.strip()
