"""The label explorer: pages over the results of a home, for one reader on this machine.

results      the read-only connection, and the selected trajectories in memory
queries      the SQL of every view, as the reader sees it
own_labels   the judgements of annotators, in the form that `sources.step_truth` reads
figures      the quality of reward types, and the agreement of annotators, by these judgements
addresses    the addresses of pages and their parameters
app          the web application; its pages are in `pages` and `judging`
"""

from cpmi_dagster.resources.explorer.app import explorer, serve_explorer

__all__ = ["explorer", "serve_explorer"]
