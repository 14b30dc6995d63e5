"""Files and processes: JSON Lines, text that any file can hold, files written whole or not at all, who wrote."""
