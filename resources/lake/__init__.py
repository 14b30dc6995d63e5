"""The lake: files of tables and model answers, and the DuckDB database over them."""
