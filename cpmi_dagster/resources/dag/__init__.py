"""Stages of the DAG, the states of their files, and their runs in Dagster."""
