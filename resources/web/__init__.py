"""Web servers on 127.0.0.1: the label explorer, and Dagster's."""
