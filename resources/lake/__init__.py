"""What is kept: files of the lake on a disk or a store, their facts, and the DuckDB database over them."""
