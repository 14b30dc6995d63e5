"""Agreement of two people, against scikit-learn's, and how many steps a figure lacks."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, cohen_kappa_score

from cpmi_dagster.benchmarks.agreement import agreement, share_lacking
from cpmi_dagster.benchmarks.resampling import Estimate


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=40))
def test_agreement_is_that_of_scikit_learn(judged):
    one, other = (list(said) for said in zip(*judged, strict=True))
    found = agreement(one, other, range(len(one)), samples=10, seed=0)
    assert found.alike.value == pytest.approx(accuracy_score(one, other))
    if len({*one, *other}) > 1:
        assert found.kappa and found.kappa.value == pytest.approx(cohen_kappa_score(one, other))
    else:
        assert found.kappa is None


def test_a_quarter_of_the_width_takes_sixteen_times_what_is_judged():
    assert share_lacking(Estimate(0.7, 0.5, 0.9, n=50)) == pytest.approx(15)
    assert share_lacking(Estimate(0.7, 0.66, 0.74, n=50)) == 0
    assert share_lacking(Estimate(1.0, 1.0, 1.0, n=50)) is None
    assert share_lacking(Estimate(0.7, None, None, n=50)) is None
