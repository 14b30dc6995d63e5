"""How a command ends."""

import atexit
import os
import sys
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """End the process without shutting the interpreter down, when DuckDB's module prints what it leaks."""
    # private to CPython; tests/cli/test_cli.py fails if it is gone
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
