"""Settings of the benchmarks, and of external judges.

benchmarks:
  best_of_n: [gsm8k, math500]
  judges:
    Qwen2.5-Math-PRM-7B: {model: Qwen/Qwen2.5-Math-PRM-7B, dtype: bfloat16}
    A critic: judged/critic.jsonl
    My judge: [judged/mine.jsonl, {path: judged/mine_prmbench.jsonl, benchmark: prmbench}]
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator, model_validator

from cpmi_dagster.contracts.frozen import Frozen
from cpmi_dagster.files.places import expanded
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.models.settings import DtypeOrAuto, LanguageModel


class JudgeFile(Frozen):
    """JSON Lines of `id` and `probabilities`."""

    path: str = Field(description="JSON Lines of step probabilities")
    benchmark: str | None = Field(default=None, description="what the file judges, if its lines do not name it")


class Judge(Frozen):
    """An external judge: files of its predictions, or a reward model that is run."""

    files: tuple[JudgeFile, ...] = Field(default=(), description="predictions that were made elsewhere")
    model: str | None = Field(default=None, description="reward model: local folder, or hub id")
    revision: str | None = Field(default=None, description="hub commit of the model")
    dtype: DtypeOrAuto = Field(default="auto", description="precision of the weights")
    device: str = Field(default="auto", description="auto = CUDA if there is one, else CPU")
    form: str | None = Field(default=None, description="how the model reads steps, if its files do not say")
    benchmarks: tuple[str, ...] = Field(default=(), description="what the model judges; all with steps if empty")

    @property
    def weights(self) -> LanguageModel | None:
        """The model as other settings name models; None for a judge of files."""
        if self.model is None:
            return None
        return LanguageModel(name=self.model, revision=self.revision, dtype=self.dtype, device=self.device)

    @model_validator(mode="after")
    def _of_files_or_a_model(self) -> "Judge":
        if bool(self.files) == (self.model is not None):
            raise ValueError("a judge is a file, several files, or a `model`; give one of these")
        if self.files and self.model_fields_set - {"files"}:
            raise ValueError(f"`{min(self.model_fields_set - {'files'})}` is for a `model`; leave it out")
        return self


def _judge(value: Any) -> Any:
    """A path, a file with its benchmark, or several of them, as a judge."""
    if isinstance(value, (Judge, dict)) and "path" not in dict(value) and "benchmark" not in dict(value):
        return value
    files = value if isinstance(value, (list, tuple)) else [value]
    return {"files": tuple({"path": file} if isinstance(file, str) else file for file in files)}


def resolve_judges(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The settings below `benchmarks` with the judges' paths taken from the profile's folder."""
    judges = values.get("judges")
    if not isinstance(judges, dict):
        return dict(values)
    return {**values, "judges": {name: _resolve(judge, folder) for name, judge in judges.items()}}


def _resolve(value: Any, folder: Path) -> Any:
    if isinstance(value, list):
        return [_resolve(file, folder) for file in value]
    if isinstance(value, dict):
        resolved = {key: _resolve(value[key], folder) for key in ("path", "files") if key in value}
        model = value.get("model")
        if isinstance(model, str) and (model.startswith((".", "~")) or (folder / expanded(model)).exists()):
            resolved["model"] = _resolve(model, folder)
        return {**value, **resolved}
    return str((folder / expanded(value)).absolute()) if isinstance(value, str) else value


class Benchmarks(Frozen):
    """Best-of-N and the statistics of every figure."""

    best_of_n: tuple[str, ...] = Field(default=(), description="question sets that candidates are sampled for")
    candidates: int = Field(default=16, ge=1, description="N, solutions sampled of each problem")
    batch_sequences: int = Field(default=256, ge=1, description="candidates sampled at the same time")
    sampling: Sampling = Field(
        default=Sampling(temperature=0.7, top_p=0.95, max_new_tokens=1024), description="how tokens are drawn"
    )
    bootstrap_samples: int = Field(default=1000, ge=1, description="resamplings behind each interval")
    prediction_batch_tokens: int = Field(default=16384, ge=16, description="tokens that a reward model reads at once")
    judges: dict[str, Annotated[Judge, BeforeValidator(_judge)]] = Field(
        default={}, description="external judges by name: their files, or a reward model to run"
    )

    @field_validator("best_of_n")
    @classmethod
    def _each_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"`{twice[0]}` is named twice; name it once")
        return names
