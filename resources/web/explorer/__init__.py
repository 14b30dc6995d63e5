"""The label explorer: pages over the results of a home, for one reader on this machine.

results      the read-only connection, and the selected trajectories in memory
queries      the SQL of every view, as the reader sees it
own_labels   what annotators say of steps, in the form that `sources.step_truth` reads
figures      what their judgements say of reward types, and of the annotators
addresses    what the address of a page says
app          the web application; its pages are in `pages` and `judging`
"""

from cpmi_dagster.resources.web.explorer.app import explorer, serve_explorer

__all__ = ["explorer", "serve_explorer"]
