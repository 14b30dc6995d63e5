"""The component by which a Dagster project labels the steps of its own solutions.

    type: cpmi_dagster.CpmiLabels
    attributes:
      profile: files
      home: "{{ context.project_root }}/.cpmi"
      key_prefix: my_labels
      trajectories: {asset: solutions, path: "{{ context.project_root }}/data/solutions.parquet"}
      settings: {shards: 1, sources: {references: []}}

gives the project the assets my_labels/sources/math_shepherd (which depends on its asset `solutions`), …,
my_labels/labels/step_rewards, …, my_labels/dataset/cpmi_80k. They are those of `definitions`, with nothing of a code
location of our own: jobs, schedules, sensors and the executor are the project's.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import dagster as dg
from dagster.components import scaffold_component
from pydantic import ConfigDict, Field

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.files.places import expanded
from cpmi_dagster.profiles.sources import EARLIER_NAME

STARTER = """type: {type_name}

attributes:
  profile: files # a shipped profile, or the path of one
  home: "{{{{ context.project_root }}}}/.cpmi/{name}" # the folder of results
  key_prefix: {name} # what all asset keys begin with: {name}/labels/step_rewards
  last_group: dataset # labels, dataset, models, benchmarks or reports: groups after it are left out
  trajectories: # rows of question and steps, and if you have them id, gold_answer, labels
    asset: solutions # your asset that writes them
    path: "{{{{ context.project_root }}}}/data/solutions.parquet" # or a .duckdb file, and `relation: schema.table`
  settings: # all that differs from the profile, under the same names
    shards: 4 # partitions of the labels
    sources:
      references: [] # every row has its gold_answer; else the problems in which to look it up
    models:
      labeler: {{name: "miniature:labeler", dtype: float32}} # a folder or hub id, such as Qwen/Qwen3-8B-Base
"""


class Starter(dg.Scaffolder):
    """Writes a `defs.yaml` that loads, with a comment for every attribute."""

    def scaffold(self, request: dg.ScaffoldRequest) -> None:
        """See `dagster.Scaffolder`."""
        if request.scaffold_format == "python":
            scaffold_component(request)
            return
        place = request.target_path if request.append else request.target_path / "defs.yaml"
        text = STARTER.format(type_name=request.type_name, name=place.parent.name)
        with place.open("a", encoding="utf-8") as stream:
            stream.write(f"---\n{text}" if request.append else text)


class Trajectories(dg.Model, dg.Resolvable):
    """Where an asset of the project has the rows that are labelled."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    asset: dg.ResolvedAssetKey = Field(description="the asset that writes them")
    path: str = Field(description="its file or folder, as `cpmi init` reads it, or .duckdb with a `relation`")
    relation: str | None = Field(default=None, description="table or view of a DuckDB file, e.g. raw.solutions")
    fields: dict[str, str] = Field(default={}, description="the file's name of a field, by ours: {gold_answer: answer}")
    steps: str | None = Field(default=None, description="where a solution that is one text is split into steps")
    sample: dict[str, Any] | None = Field(
        default=None, description="the rows are questions alone: {solutions: 4}, and how the policy gives them"
    )


@dg.scaffold_with(Starter)
class CpmiLabels(dg.Component, dg.Model, dg.Resolvable):
    """Step-level reward labels by CPMI: the assets of a profile, sharded, from rows of the project's own asset."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    home: str = Field(description="the folder of results")
    profile: str = Field(default="files", description="a shipped profile, or the path of one")
    key_prefix: dg.ResolvedAssetKey = Field(default=dg.AssetKey("cpmi"), description="what asset keys begin with")
    last_group: Annotated[
        Literal["labels", "dataset", "models", "benchmarks", "reports"],
        dg.Resolver.default(description="the last group of assets that the project has"),
    ] = "dataset"
    trajectories: Trajectories | None = Field(default=None, description="rows of an asset of the project's own")
    settings: dict[str, Any] = Field(default={}, description="what differs from the profile, under the same names")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """See `dagster.Component`.

        Raises:
            SettingsError: the profile does not exist, or a setting is unknown or wrong.
        """
        from cpmi_dagster.definitions import load_settings, part_of_project

        file = context.path / "defs.yaml" if context.path.is_dir() else context.path
        own = file.parent / expanded(self.profile)
        home = self.home if "://" in self.home else file.parent / expanded(self.home)
        settings = load_settings(own if own.is_file() else self.profile, home, self._changes(file), file)
        upstream = [self.trajectories.asset] if self.trajectories else []
        return part_of_project(settings, self.key_prefix.path, self.last_group, upstream)

    def _changes(self, file: Path) -> dict[str, Any]:
        """The settings, those of the trajectories among them."""
        if self.trajectories is None:
            return self.settings
        sources = self.settings.get("sources") or {}
        if named := {"trajectories", EARLIER_NAME} & set(sources):
            raise SettingsError(f"{file} names `trajectories` and `settings.sources.{named.pop()}`; remove one of them")
        path = str((file.parent / expanded(self.trajectories.path)).absolute())
        asked = self.trajectories.model_dump(include={"relation", "fields", "steps", "sample"}, exclude_defaults=True)
        source = {"path": path, **asked}
        return {**self.settings, "sources": {**sources, "trajectories": source}}
