"""What a stage of the DAG is, whether its files are current, and how runs of it live, fail and end."""
