"""Reading and writing files: JSON Lines, text that any file can hold, files written whole or not at all."""
