"""Files and processes: JSON Lines, text that can be encoded, files written whole or not at all, who wrote them."""
