"""What is served to a browser or a trainer: the label explorer, reward models, the guarded Dagster UI."""
