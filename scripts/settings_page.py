"""Writes docs/settings.md, the reference of all settings, from their classes.

    python -m scripts.settings_page

A section is a class, with a row for each setting: type, default and meaning. A class that several settings use, such as
a model, has one section. Tests load the examples as settings.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

from cpmi_dagster.files.whole_files import write_whole
from cpmi_dagster.profiles.settings import Settings

PAGE = Path(__file__).resolve().parents[1] / "docs" / "settings.md"
HEAD = """# Every setting

A profile is a YAML file of these settings. It may begin with `extends: miniature` (a shipped profile or a path) and
contain only what differs. A setting is also an environment variable: `CPMI_SCORING__ROW_TOKENS=4096`. [Profiles and
costs](profiles.md) says which profiles there are. `python -m scripts.settings_page` writes this page from the code.
"""
EXAMPLES = {
    "Settings": "profile: mine\nseed: 1\nshards: 4",
    "Sources": "sources:\n  trajectories: {path: ./rows.jsonl}\n  step_truth: {path: ./judged.jsonl}",
    "TrajectorySource": "sources:\n  trajectories: {path: ./rows.jsonl, fields: {gold_answer: answer}, steps: line}",
    "SolutionSampling": "sources:\n  trajectories: {sample: {questions: {path: ./questions.jsonl}, solutions: 4}}",
    "Sampling": "rollouts:\n  sampling: {temperature: 0.6, top_p: 0.95, top_k: 20, max_new_tokens: 512}",
    "StepLabelSource": "sources:\n  step_labels:\n    my_judge: {path: ./labels.jsonl, probabilities: true}",
    "ReferenceSource": "sources:\n  references:\n    - {source: my_set, path: ./problems.jsonl}",
    "DataSource": "sources:\n  benchmarks:\n    math500: {hub: HuggingFaceH4/MATH-500, split: test}",
    "Models": "models:\n  labeler: {name: Qwen/Qwen3-8B-Base}\n  backbone: {name: Qwen/Qwen3-4B-Base}",
    "LanguageModel": "models:\n  labeler: {name: Qwen/Qwen3-8B-Base, dtype: bfloat16}",
    "Answers": "answers: {equivalent: 'operator:eq'}",
    "Selection": "selection: {trajectories: 500, gsm8k_share: null, mixed_share: null}",
    "Negatives": "negatives: {count: 4, samples: 8}",
    "ProfileScoring": "scoring: {templates: 2}",
    "Rollouts": "rollouts: {policy_count: 8, sample: 40}",
    "Rewards": "rewards: {types: [cpmi, step_length]}\nrecipes:\n  - {name: cpmi_bce, reward_type: cpmi}",
    "SoftLabels": "soft_labels: {mad_factor: 1.4826, clip: 6}",
    "Training": "training: {epochs: 1, batch_size: 4}",
    "Lora": "training:\n  backbone: full\n  lora: {rank: 16}",
    "Recipe": "recipes:\n  - {name: cpmi_bce, reward_type: cpmi}",
    "Benchmarks": "benchmarks: {best_of_n: [], bootstrap_samples: 200}",
    "Judge": "benchmarks:\n  judges:\n    mine: {model: ./my-reward-model}",
    "JudgeFile": "benchmarks:\n  judges:\n    other: {files: [{path: ./judged.jsonl, benchmark: prmbench}]}",
    "Orchestration": "orchestration: {gpus: 8, shards_per_tick: 16}",
}
"""By class, settings of a profile that extends `paper`."""
TYPES = {int: "whole number", float: "number", str: "text", bool: "true or false", Path: "path", Any: "any value"}
BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


def settings_in(annotation: Any) -> list[type[BaseModel]]:
    """The models in a type: `[TrajectorySource]` of `tuple[TrajectorySource, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in settings_in(part)]


def sections(model: type[BaseModel], path: str = "") -> Iterator[tuple[type[BaseModel], str]]:
    """Yield every class of settings with its dotted path, a section before its parts."""
    yield model, path
    for name, field in model.model_fields.items():
        for part in settings_in(field.annotation):
            yield from sections(part, f"{path}.{name}".strip("."))


def page() -> str:
    """The text of the page."""
    first: dict[type[BaseModel], str] = {}
    for model, path in sections(Settings):
        first.setdefault(model, path)
    return HEAD + "".join(section(model, path) for model, path in first.items())


def section(model: type[BaseModel], path: str) -> str:
    """A heading, the meaning of the class, an example and a row for each setting."""
    title = f"`{path}`: {model.__name__}" if path else "At the top"
    meaning = re.sub(r"\s+", " ", (model.__doc__ or "").strip().partition("\n\n")[0])
    rows = [
        f"| `{name}` | {type_words(field.annotation)}{bounds(field)} | {default(field)} | {described(field)} |"
        for name, field in model.model_fields.items()
    ]
    table = "\n".join(["| setting | type | default | meaning |", "| --- | --- | --- | --- |", *rows])
    return f"\n## {title}\n\n{meaning}\n\n```yaml\n{EXAMPLES[model.__name__]}\n```\n\n{table}\n"


def described(field: FieldInfo) -> str:
    """The meaning of a setting; of a section, a reference to its table."""
    parts = settings_in(field.annotation)
    return (field.description or f"see {parts[0].__name__}").replace("|", "\\|")


def default(field: FieldInfo) -> str:
    """The default as YAML writes it."""
    if field.default is PydanticUndefined:
        return "" if "by default" in (field.description or "") else "none, must be given"
    if settings_in(field.annotation) and isinstance(field.default, BaseModel):
        changed = field.default.model_dump(mode="json", exclude_unset=True)
        return f"`{one_line(changed)}`" if changed else "see there"
    return f"`{one_line(to_jsonable_python(field.default))}`"


def one_line(value: Any) -> str:
    """A value as YAML on one line."""
    text = yaml.safe_dump(value, default_flow_style=True, width=float("inf"), sort_keys=False)
    return text.strip().removesuffix("...").strip()


def type_words(kind: Any) -> str:
    """A type in words: `whole number or null`, `auto, line or marker`."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return type_words(parts[0])
    if origin is Literal:
        return " or ".join(f"`{part}`" for part in parts)
    if origin in (Union, UnionType):
        return " or ".join("null" if part is NoneType else type_words(part) for part in parts)
    if origin is tuple:
        return f"list of {type_words(parts[0])}"
    if origin is dict:
        return f"{type_words(parts[1])} by name"
    return TYPES.get(kind) or kind.__name__


def bounds(field: FieldInfo) -> str:
    """The bounds of a number: `, ≥ 1, < 100`."""
    limits = [(sign, getattr(rule, name, None)) for rule in field.metadata for name, sign in BOUNDS.items()]
    return "".join(f", {sign} {value}" for sign, value in limits if value is not None)


if __name__ == "__main__":
    write_whole(PAGE, page())
