"""The lake: files of tables, and the DuckDB database over them."""
