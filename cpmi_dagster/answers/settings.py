"""Settings of how answers are compared.

answers: {equivalent: "my_module:same"}     same(gold: str, candidate: str) -> bool, in my_module.py beside the profile
"""

from pydantic import Field, PrivateAttr, model_validator

from cpmi_dagster.answers.comparison import BUILT_IN, Comparison, load_comparison, module_digest
from cpmi_dagster.contracts.frozen import Frozen
from cpmi_dagster.errors import SettingsError


class Answers(Frozen):
    """How the answers of problems are compared, wherever a run compares some."""

    equivalent: str | None = Field(
        default=None, description="`module:function` of the gold answer and another; the built-in equivalence if null"
    )
    folder: str | None = Field(
        default=None, description="where its module is looked for first; the folder of the profile that names it"
    )
    _digest: str = PrivateAttr(default="")

    @model_validator(mode="after")
    def _can_be_loaded(self) -> "Answers":
        if self.equivalent:
            try:
                self._digest = module_digest(self.equivalent, self.folder)
                load_comparison(self.equivalent, self.folder, self._digest)
            except SettingsError as error:
                raise ValueError(str(error)) from error
        return self

    @property
    def comparison(self) -> Comparison:
        """The function that the profile names, loaded once in every process; else the built-in equivalence."""
        return load_comparison(self.equivalent, self.folder, self._digest) if self.equivalent else BUILT_IN

    @property
    def identity(self) -> dict[str, str] | None:
        """The function's name and the sha256 of its module's file; None for the built-in equivalence."""
        return {"function": self.equivalent, "sha256": self._digest} if self.equivalent else None
