"""A console on which data cannot act: what a terminal would obey is shown instead."""

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from cpmi_dagster.files.text import printable


class SafeConsole(Console):
    """Rich's console for commands, all of which print text that comes from data, files and servers."""

    def __init__(self, **options: Any) -> None:
        # `:100:` in a text is not an emoji
        super().__init__(emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Text of a line, cell or title, its control characters written out."""
        return super().render_str(printable(text), **options)

    def warn(self, message: str) -> None:
        """What went wrong beside a command's work, as it is: `[red]` in it is text."""
        self.print(message, highlight=False, markup=False, soft_wrap=True)

    def complain(self, message: str) -> None:
        """What made a command fail."""
        self.print(f"[red]error:[/red] {escape(message)}", highlight=False, soft_wrap=True)

    def write(self, text: str) -> None:
        """Text as it is for a program that reads it; on a terminal as `render_str` shows it."""
        self.file.write(printable(text) if self.is_terminal else text)
