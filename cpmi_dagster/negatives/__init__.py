"""Hard negatives: sampled by the labeler, completed by heuristics (section 5.1, appendix A)."""

from cpmi_dagster.negatives.hard_negatives import HardNegative, heuristic_negatives

__all__ = ["HardNegative", "heuristic_negatives"]
