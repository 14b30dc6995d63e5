"""Files and processes: JSON Lines, YAML, text that can be encoded, files written whole or not at all, their writers."""
