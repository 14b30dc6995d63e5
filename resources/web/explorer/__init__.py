"""The label explorer: pages over the published results of a home, for one reader on this machine.

snapshot     a read-only connection, with what every page needs in memory; opened again when results are published
queries      the SQL of every view, as the reader sees it
trajectory   what the page of a trajectory shows
own_labels   what annotators say of steps, in the form that `sources.step_truth` reads
figures      what their judgements say of reward types, and of the annotators
annotation_tools   the forms of Argilla and Label Studio
addresses    what the address of a page says
app          the web application; its pages are in `pages` and `judging`
"""

from cpmi_dagster.resources.web.explorer.app import explorer, serve_explorer

__all__ = ["explorer", "serve_explorer"]
