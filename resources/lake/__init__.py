"""What is kept: files of the lake, their facts, and the DuckDB database over them."""
