"""The Dagster component that labels the solutions of a project.

    type: cpmi_dagster.CpmiLabels
    attributes:
      profile: files
      home: "{{ context.project_root }}/.cpmi"
      key_prefix: my_labels
      trajectories: {asset: solutions, path: "{{ context.project_root }}/data/solutions.parquet"}
      settings: {shards: 1, sources: {references: []}}

adds the assets my_labels/sources/math_shepherd (which depends on the project's asset `solutions`) to
my_labels/dataset/cpmi_80k. Jobs, schedules, sensors and the executor stay the project's.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import dagster as dg
from dagster.components import scaffold_component
from pydantic import ConfigDict, Field

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.files.places import expanded

DEFS_TEMPLATE = """type: {type_name}

attributes:
  profile: files # a shipped profile, or the path of one
  home: "{{{{ context.project_root }}}}/.cpmi/{name}" # the folder of results
  key_prefix: {name} # what all asset keys begin with: {name}/labels/step_rewards
  last_group: dataset # labels, dataset, models, benchmarks or reports: groups after it are left out
  trajectories: # rows of question and steps, and if you have them id, gold_answer, labels
    asset: solutions # your asset that writes them
    path: "{{{{ context.project_root }}}}/data/solutions.parquet" # or a .duckdb file, and `relation: schema.table`
  settings: # all that differs from the profile, under the same names
    shards: 1 # partitions of the labels; of more, launch a backfill over all of them
    sources:
      references: [] # every row has its gold_answer; else the problems in which to look it up
    models:
      labeler: {{name: "miniature:labeler", dtype: float32}} # a folder or hub id, such as Qwen/Qwen3-8B-Base
"""


class DefsScaffolder(dg.Scaffolder):
    """Writes a `defs.yaml` with a comment on every attribute."""

    def scaffold(self, request: dg.ScaffoldRequest) -> None:
        """See `dagster.Scaffolder`."""
        if request.scaffold_format == "python":
            scaffold_component(request)
            return
        place = request.target_path if request.append else request.target_path / "defs.yaml"
        text = DEFS_TEMPLATE.format(type_name=request.type_name, name=place.parent.name)
        with place.open("a", encoding="utf-8") as stream:
            stream.write(f"---\n{text}" if request.append else text)


class Trajectories(dg.Model, dg.Resolvable):
    """The rows to label, written by an asset of the project."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    asset: dg.ResolvedAssetKey = Field(description="asset that writes the rows")
    path: str = Field(description="file or folder, as `cpmi init` reads it, or .duckdb with a `relation`")
    relation: str | None = Field(default=None, description="table or view of a DuckDB file, e.g. raw.solutions")
    fields: dict[str, str] = Field(default={}, description="field names of the file, by ours: {gold_answer: answer}")
    steps: str | None = Field(default=None, description="how a solution that is one text is split into steps")
    sample: dict[str, Any] | None = Field(
        default=None, description="for rows that are questions: how the policy samples solutions, e.g. {solutions: 4}"
    )


@dg.scaffold_with(DefsScaffolder)
class CpmiLabels(dg.Component, dg.Model, dg.Resolvable):
    """Step-level reward labels by CPMI: the assets of a profile, from rows of an asset of the project."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    home: str = Field(description="folder of results")
    profile: str = Field(default="files", description="shipped profile, or path of a profile")
    key_prefix: dg.ResolvedAssetKey = Field(default=dg.AssetKey("cpmi"), description="prefix of all asset keys")
    last_group: Annotated[
        Literal["labels", "dataset", "models", "benchmarks", "reports"],
        dg.Resolver.default(description="last group of assets; later groups are left out"),
    ] = "dataset"
    trajectories: Trajectories | None = Field(default=None, description="rows of an asset of the project")
    settings: dict[str, Any] = Field(default={}, description="settings that differ from the profile")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """See `dagster.Component`.

        Raises:
            SettingsError: the profile does not exist, or a setting is unknown or wrong.
        """
        from cpmi_dagster.definitions import load_settings, part_of_project

        file = context.path / "defs.yaml" if context.path.is_dir() else context.path
        beside = file.parent / expanded(self.profile)
        home = self.home if "://" in self.home else file.parent / expanded(self.home)
        settings = load_settings(beside if beside.is_file() else self.profile, home, self._changes(file), file)
        upstream = [self.trajectories.asset] if self.trajectories else []
        return part_of_project(settings, self.key_prefix.path, self.last_group, upstream)

    def _changes(self, file: Path) -> dict[str, Any]:
        """`settings` with the source of `trajectories`."""
        if self.trajectories is None:
            return self.settings
        sources = self.settings.get("sources") or {}
        if "trajectories" in sources:
            raise SettingsError(f"{file} names `trajectories` and `settings.sources.trajectories`; remove one of them")
        path = str((file.parent / expanded(self.trajectories.path)).absolute())
        given = self.trajectories.model_dump(include={"relation", "fields", "steps", "sample"}, exclude_defaults=True)
        return {**self.settings, "sources": {**sources, "trajectories": {"path": path, **given}}}
