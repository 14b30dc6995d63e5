"""Thresholds to try: between two neighbouring scores every threshold judges alike, so one per gap is exact.

    scores       0.2     0.6     0.9
    thresholds   0.1 | 0.4 | 0.75 | 1.0…

A step is judged wrong if its score is below the threshold. The middle of a gap is taken, as it carries over best to
other problems; the last threshold lies above every score.
"""

import numpy as np
import numpy.typing as npt

from cpmi_dagster.benchmarks.resampling import Floats


def candidate_thresholds(scores: npt.ArrayLike) -> Floats:
    """One threshold per way to split the scores, ascending.

    Args:
        scores: [n] probabilities in any order, repeats allowed.

    Returns:
        [distinct scores + 1] thresholds; number i has exactly the i lowest distinct scores below it.
    """
    distinct = np.unique(np.asarray(scores, dtype=np.float64))
    above_all = max(1.0, float(np.nextafter(distinct[-1], np.inf))) if len(distinct) else 1.0
    upper = np.append(distinct, above_all)
    lower = np.insert(distinct, 0, min(0.0, float(upper[0])))
    middle = (lower + upper) / 2
    return np.where(middle > lower, middle, upper)
