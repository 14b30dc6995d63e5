"""A console that shows control characters of data and does not obey them."""

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from cpmi_dagster.files.text import printable


class SafeConsole(Console):
    """Rich's console for text that comes from data, files and servers."""

    def __init__(self, **options: Any) -> None:
        # `:100:` in a text is not an emoji
        super().__init__(emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Render a line, cell or title with its control characters written out."""
        return super().render_str(printable(text), **options)

    def warn(self, message: str) -> None:
        """Print a message as it is: `[red]` in it is text."""
        self.print(message, highlight=False, markup=False, soft_wrap=True)

    def complain(self, message: str) -> None:
        """Print the error that ends a command."""
        self.print(f"[red]error:[/red] {escape(message)}", highlight=False, soft_wrap=True)

    def write(self, text: str) -> None:
        """Write text unchanged for a program that reads it, and printable on a terminal."""
        self.file.write(printable(text) if self.is_terminal else text)
