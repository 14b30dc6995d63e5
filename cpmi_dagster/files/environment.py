"""Environment variables that a setting names, such as the key of a server; `profiles` reads the settings themselves."""

import os
import re


def environment_variable(name: str) -> str:
    """The value of a variable, empty if it is not set."""
    return os.environ.get(name, "").strip()


def is_variable_name(text: str) -> bool:
    """Whether a setting may name this variable: one that begins with `CPMI_` is a setting itself."""
    return re.fullmatch(r"[A-Za-z_]\w*", text) is not None and not text.startswith("CPMI_")
