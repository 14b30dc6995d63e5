"""Environment variables that a setting names: keys of endpoints, visible GPUs. `profiles` reads the settings."""

import os


def environment_variable(name: str) -> str:
    """The value of a variable that a setting names; empty where it is not set."""
    return os.environ.get(name, "").strip()
