"""Readers of the files, DuckDB relations and hub data sets that a profile names."""
