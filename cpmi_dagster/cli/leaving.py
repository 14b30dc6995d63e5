"""How a command ends."""

import atexit
import os
import sys
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """End the process at once: shutting the interpreter down makes extension modules print warnings."""
    # private, CPython 3.11; tests/cli/test_leaving.py fails where it is gone
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
