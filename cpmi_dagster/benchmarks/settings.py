"""Settings of the benchmarks, and of external judges.

benchmarks:
  best_of_n: [gsm8k, math500]
  judges:
    Qwen2.5-Math-PRM-7B: judged/qwen.jsonl
    My judge: [judged/mine.jsonl, {path: judged/mine_prmbench.jsonl, benchmark: prmbench}]
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator

from cpmi_dagster.contracts.frozen import Frozen
from cpmi_dagster.files.places import expanded
from cpmi_dagster.generation.settings import Sampling


class JudgeFile(Frozen):
    """JSON Lines of `id` and `probabilities`."""

    path: str
    benchmark: str | None = Field(default=None, description="what the file judges, if its lines do not name it")


def _files(value: Any) -> Any:
    """A path, a file with its benchmark, or several of them, as a list of files."""
    files = value if isinstance(value, (list, tuple)) else [value]
    return tuple({"path": file} if isinstance(file, str) else file for file in files)


JudgeFiles = Annotated[tuple[JudgeFile, ...], BeforeValidator(_files), Field(min_length=1)]


def resolve_judges(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The settings below `benchmarks` with the judges' paths taken from the profile's folder."""
    judges = values.get("judges")
    if not isinstance(judges, dict):
        return dict(values)
    return {**values, "judges": {name: _resolve(files, folder) for name, files in judges.items()}}


def _resolve(value: Any, folder: Path) -> Any:
    if isinstance(value, list):
        return [_resolve(file, folder) for file in value]
    if isinstance(value, dict) and "path" in value:
        return {**value, "path": _resolve(value["path"], folder)}
    return str((folder / expanded(value)).absolute()) if isinstance(value, str) else value


class Benchmarks(Frozen):
    """Best-of-N and the statistics of every figure."""

    best_of_n: tuple[str, ...] = Field(default=(), description="question sets that candidates are sampled for")
    candidates: int = Field(default=16, ge=1)
    batch_sequences: int = Field(default=256, ge=1)
    sampling: Sampling = Sampling(temperature=0.7, top_p=0.95, max_new_tokens=1024)
    bootstrap_samples: int = Field(default=1000, ge=1)
    prediction_batch_tokens: int = Field(default=16384, ge=16)
    judges: dict[str, JudgeFiles] = Field(default={}, description="external judges by name: their files")

    @field_validator("best_of_n")
    @classmethod
    def _each_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"`{twice[0]}` is named twice; name it once")
        return names
