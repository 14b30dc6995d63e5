"""The embedded world as data: files in the formats of the real sources, and small language models trained on it.

from cpmi_dagster.miniature.names import MODEL_FOLDERS, local_path

local_path("miniature:math_shepherd")              data/math_shepherd.jsonl.gz, rows as Math-Shepherd publishes them
AutoModelForCausalLM.from_pretrained(MODEL_FOLDERS["labeler"])

`scripts/miniature_world` generated the files, `scripts/miniature_models` trained the models.
"""
