"""What a library says is wrong becomes one sentence of ours."""

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

from cpmi_dagster.errors import first_complaint, first_line


class _Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    count: int = 1

    @field_validator("count")
    @classmethod
    def _even(cls, count: int) -> int:
        if count % 2:
            raise ValueError("an odd count")
        return count


class _Outer(BaseModel):
    inner: list[_Inner]

    @model_validator(mode="after")
    def _not_empty(self) -> "_Outer":
        if not self.inner:
            raise ValueError("nothing is listed")
        return self


@pytest.mark.parametrize(
    ("values", "sentence", "kind", "given"),
    [
        ({"inner": [{"count": 3}]}, "`inner.0.count`: an odd count", "value_error", 3),
        ({"inner": [{"coumt": 3}]}, "`inner.0.coumt`: Extra inputs are not permitted", "extra_forbidden", 3),
        ({}, "`inner`: it is missing", "missing", {}),
        ({"inner": []}, "nothing is listed", "value_error", {"inner": []}),
    ],
)
def test_a_complaint_names_the_first_wrong_place_and_why(values, sentence, kind, given):
    with pytest.raises(ValidationError) as caught:
        _Outer.model_validate(values)
    complaint = first_complaint(caught.value)
    assert (str(complaint), complaint.kind, complaint.given) == (sentence, kind, given)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (RuntimeError("out of memory\nof the card"), "out of memory"),
        (RuntimeError("\n  out of memory"), "out of memory"),
        (OSError(), "OSError"),
    ],
)
def test_an_error_is_cut_to_its_first_line_or_named_by_its_type(error, line):
    assert first_line(error) == line
