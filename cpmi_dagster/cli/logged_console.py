"""A console whose lines are log lines, for those who collect logs: CPMI_LOG_FORMAT=json."""

import logging
from typing import Any

from cpmi_dagster.cli.safe_console import SafeConsole

LOG = logging.getLogger("cpmi")
LOG.setLevel(logging.INFO)


class LoggedConsole(SafeConsole):
    """Logs what commands would print on stderr; it is no terminal, so there are no bars and no colours."""

    def __init__(self) -> None:
        super().__init__(stderr=True, force_terminal=False, no_color=True)

    def print(self, *objects: Any, **options: Any) -> None:
        """Log the text as one line, without the spaces that align it."""
        with self.capture() as captured:
            super().print(*objects, **{**options, "soft_wrap": True})
        LOG.info("%s", " ".join(captured.get().split()))

    def warn(self, message: str) -> None:
        """See `SafeConsole.warn`."""
        LOG.warning("%s", message)

    def complain(self, message: str) -> None:
        """See `SafeConsole.complain`."""
        LOG.error("%s", message)
