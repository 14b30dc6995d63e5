"""Reward types."""

import re
from typing import Literal

RewardType = Literal[
    "mc", "mc_hard", "pav",
    "cpmi", "cpmi_incremental", "cpmi_prefix", "cpmi_leave_one_out",
    "gold_only", "neg_only", "cpmi_m1", "cpmi_m2",
    "cpmi_merge1", "cpmi_merge2", "cpmi_merge3", "pav_merge1", "pav_merge2", "pav_merge3", "rand_merge",
    "math_shepherd",
]  # fmt: skip

OWN_LABELS = re.compile(r"(?!(?:cpmi|pav|rand)_merge\d*$|(?:path|hub|name)$)[a-z][a-z0-9_]*")
"""Names that step labels of one's own may have; what merges and keys of a source are called is taken."""
