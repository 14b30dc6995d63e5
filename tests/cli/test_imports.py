"""What `cpmi --help` loads: only the commands that use the data and model libraries wait for their import."""

import subprocess
import sys

PROGRAM = """
import sys
from cpmi_dagster.cli import app
app(["--help"], standalone_mode=False)
print("loaded:", *sorted({"dagster", "dataframely", "polars", "torch", "transformers"} & set(sys.modules)))
"""


def test_help_loads_no_data_or_model_library():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1].strip() == "loaded:", done.stdout + done.stderr
