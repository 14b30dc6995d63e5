"""How much is tried at once after memory has run out."""

from cpmi_dagster.models import memory
from cpmi_dagster.models.memory import remember_size, size_that_fits


def test_what_fitted_is_tried_for_a_while_and_then_twice_as_much(monkeypatch):
    monkeypatch.setattr(memory, "RAISED_AFTER", 2)
    remembered = {}
    assert size_that_fits(remembered, "rows", 64) == 64
    remember_size(remembered, "rows", 16)
    assert [size_that_fits(remembered, "rows", 64) for _ in range(7)] == [16, 16, 32, 32, 64, 64, 64]
    remember_size(remembered, "rows", 32)
    assert [size_that_fits(remembered, *asked) for asked in (("rows", 64), ("rows", 8), ("others", 64))] == [32, 8, 64]
