"""`dagster dev` with a webserver that answers its own pages only.

    python -P -m cpmi_dagster.resources.web.guarded_webserver dev -p 3000

`dagster dev` starts code server, daemon and webserver, the last as `python -m dagster_webserver …`. Here it starts this
module instead, which serves Dagster's own application behind `own_pages_only`. A deployment starts it alone, as
`dagster-webserver`; `UI_ORIGIN` is then the address under which a proxy shows it.
"""

import sys
from types import ModuleType
from typing import Any

from starlette.applications import Starlette

from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.resources.web.own_pages_only import guard

# not `__name__`, which is `__main__` where it is needed
MODULE = "cpmi_dagster.resources.web.guarded_webserver"
ORIGIN = "UI_ORIGIN"
# `-P`: files where the user stands are not imported
AS_MODULE = ("-P", "-m", MODULE)


def serve_all() -> None:
    """`dagster dev`, its webserver replaced by `serve_pages`."""
    from dagster._cli import dev, main
    from dagster_shared.ipc import open_ipc_subprocess

    def start_guarded(command: list[str], **options: Any) -> Any:
        return open_ipc_subprocess(guarded_command(command), **options)

    _replace(dev, "open_ipc_subprocess", start_guarded)
    main()


def serve_pages() -> None:
    """`dagster-webserver`, behind the guard."""
    from dagster_webserver import cli
    from dagster_webserver.app import create_app_from_workspace_process_context

    def make_guarded(*arguments: Any, **options: Any) -> Starlette:
        return guard(create_app_from_workspace_process_context(*arguments, **options), environment_variable(ORIGIN))

    _replace(cli, "create_app_from_workspace_process_context", make_guarded)
    cli.main()


def guarded_command(command: list[str]) -> list[str]:
    """The command that starts a process of `dagster dev`, with this module in the place of Dagster's webserver."""
    interpreter, *arguments = command
    if arguments[:2] != ["-m", "dagster_webserver"]:
        return command
    return [interpreter, *AS_MODULE, *arguments[2:]]


def _replace(module: ModuleType, name: str, function: Any) -> None:
    """Put a function in the place of one of Dagster's, which a test over HTTP finds missing when Dagster moves it."""
    if not hasattr(module, name):
        raise RuntimeError(f"{module.__name__} has no `{name}`: this version of Dagster cannot be served safely")
    setattr(module, name, function)


if __name__ == "__main__":
    serve_all() if sys.argv[1:2] == ["dev"] else serve_pages()
