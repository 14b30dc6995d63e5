"""Environment variables that a setting names: keys, passwords, visible GPUs. `profiles` reads the settings."""

import os
import re


def environment_variable(name: str) -> str:
    """The value of a variable that a setting names; empty where it is not set."""
    return os.environ.get(name, "").strip()


def is_variable_name(text: str) -> bool:
    """Whether a setting can name this variable; those that begin with `CPMI_` are settings themselves."""
    return re.fullmatch(r"[A-Za-z_]\w*", text) is not None and not text.startswith("CPMI_")
