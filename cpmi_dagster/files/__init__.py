"""Files: JSON Lines, YAML, text for terminals and Markdown, atomic writes, locks."""
