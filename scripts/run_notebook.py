"""Run a notebook from top to bottom and write it with what its cells give: texts, tables, pictures.

    python scripts/run_notebook.py examples/first_labels.ipynb                    in place, after a change of it
    python scripts/run_notebook.py examples/first_labels.ipynb --output out.ipynb  a test compares the two

Cells run in this process, in the notebook's folder, as a kernel runs them; no kernel or package of Jupyter is needed.
"""

import argparse
import ast
import base64
import io
import json
import os
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

RICH = {"text/html": "_repr_html_", "image/png": "_repr_png_"}
"""What a notebook shows of a value beside its text, and the method that makes it."""


def run(notebook: dict[str, Any], name: str) -> None:
    """Fill in the outputs of all code cells, in one namespace."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for count, cell in enumerate(cells, start=1):
        printed, value = io.StringIO(), None
        tree = ast.parse("".join(cell["source"]), f"{name}, code cell {count}")
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        with redirect_stdout(printed):
            exec(compile(tree, f"{name}, code cell {count}", "exec"), namespace)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), f"{name}, code cell {count}", "eval"), namespace)
        cell["execution_count"], cell["outputs"] = count, []
        if text := printed.getvalue():
            cell["outputs"].append({"output_type": "stream", "name": "stdout", "text": lines(text)})
        if value is not None:
            data = {"text/plain": lines(repr(value)), **rich(value)}
            result = {"output_type": "execute_result", "execution_count": count, "data": data, "metadata": {}}
            cell["outputs"].append(result)


def rich(value: Any) -> dict[str, Any]:
    """What a notebook shows of a value beside its text, by type of content."""
    made = {kind: getattr(value, method)() for kind, method in RICH.items() if hasattr(value, method)}
    return {
        kind: base64.b64encode(content).decode() if isinstance(content, bytes) else lines(content)
        for kind, content in made.items()
        if content is not None
    }


def lines(text: str) -> list[str]:
    """Text as notebooks hold it."""
    return text.splitlines(keepends=True)


def main() -> None:
    """Run the notebook that the command line names."""
    parser = argparse.ArgumentParser(description="Run a notebook and write it with its outputs.")
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--output", type=Path, help="by default the notebook itself")
    arguments = parser.parse_args()
    output = (arguments.output or arguments.notebook).absolute()
    notebook = json.loads(arguments.notebook.read_text(encoding="utf-8"))
    os.chdir(arguments.notebook.parent)
    run(notebook, arguments.notebook.name)
    output.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
