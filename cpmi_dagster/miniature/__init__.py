"""The embedded world: generated problems in the formats of the real sources, and small language models that know them.

from cpmi_dagster.miniature import MODEL_FOLDERS, WORLD_FILES, WORLD_VERSION, write_world

write_world(Path("world"), seed=0)
Path("world") / WORLD_FILES["math_shepherd"]       rows as Math-Shepherd publishes them
AutoModelForCausalLM.from_pretrained(MODEL_FOLDERS["labeler"])
"""

from cpmi_dagster.miniature.names import MODEL_FOLDERS
from cpmi_dagster.miniature.world import WORLD_FILES, WORLD_VERSION, WorldSize, write_world

__all__ = ["MODEL_FOLDERS", "WORLD_FILES", "WORLD_VERSION", "WorldSize", "write_world"]
