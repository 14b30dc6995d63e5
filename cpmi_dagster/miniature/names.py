"""What `miniature:NAME` names: a file or a model of the embedded world."""

from pathlib import Path

MINIATURE = "miniature:"

WEIGHTS = Path(__file__).parent / "weights"

MODEL_FOLDERS: dict[str, Path] = {name: WEIGHTS / name for name in ("labeler", "prover", "backbone")}
