"""CPMI: step-level reward labels from log-probabilities of answers, without Monte-Carlo rollouts.

>>> from cpmi_dagster import score_trajectories
"""

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cpmi_dagster.scoring.trajectories import score_trajectories
    from cpmi_dagster.trajectories import math_shepherd

__all__ = ["math_shepherd", "score_trajectories"]


class _PromisedName(MetaPathFinder, Loader):
    """Keeps `cpmi_dagster.math_shepherd` importable, which users were promised; the module is in `trajectories`."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname == f"{__name__}.math_shepherd" else None

    def exec_module(self, module: ModuleType) -> None:
        # the import system hands out what stands in `sys.modules` when this returns
        sys.modules[module.__name__] = import_module(f"{__name__}.trajectories.math_shepherd")


sys.meta_path.append(_PromisedName())


def __getattr__(name: str) -> Any:
    """What users import from here is loaded at its first use, so that importing the package stays cheap."""
    if name == "score_trajectories":
        return import_module(f"{__name__}.scoring.trajectories").score_trajectories
    if name == "math_shepherd":
        return import_module(f"{__name__}.trajectories.math_shepherd")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
