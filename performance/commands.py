"""Measures processor seconds of commands that people wait for: the least of some runs of the whole process.

python performance/commands.py .cpmi/miniature

query "select 1"        1.3
init                    0.9
status                  2.4
explore, until it serves        1.3
run, nothing to do      4.7
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROWS = [{"id": n, "question": f"{n} + 1?", "steps": [f"{n} + 1 = {n + 1}."], "gold_answer": n + 1} for n in range(40)]
CPMI = [sys.executable, "-m", "cpmi_dagster"]


def processor_seconds(arguments: list[str], folder: Path, home: Path, ends: bool = True) -> float:
    """User and system seconds of a process and its children.

    Args:
        ends: whether it ends by itself; a server is stopped once it has printed its address.
    """

    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = spent()
    environment = {**os.environ, "CPMI_HOME": str(home), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [*CPMI, *arguments], cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        if not ends:
            assert process.stderr and process.stderr.readline()
            process.send_signal(signal.SIGINT)
        process.communicate()
    return spent() - before


def main() -> None:
    """Print the seconds of each command on a finished home of the demo."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("home", type=Path, help="home of a finished run of the miniature profile")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    home = options.home.absolute()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
        init = ["init", "--input", "rows.jsonl", "--model", "miniature:labeler", "--force", "--quiet"]
        commands = {
            'query "select 1"': (["query", "select 1", "--format", "csv"], True),
            "init": (init, True),
            "status": (["status", "-p", "miniature"], True),
            "explore, until it serves": (["explore", "-p", "miniature", "--port", "3177"], False),
            "run, nothing to do": (["run", "-p", "miniature", "--quiet"], True),
        }
        for title, (arguments, ends) in commands.items():
            seconds = [processor_seconds(arguments, folder, home, ends) for _ in range(options.repeats)]
            print(f"{title:<30} {min(seconds):5.1f}")


if __name__ == "__main__":
    main()
