"""The label explorer: pages over the published results of a home, for one reader on this machine.

snapshot     a read-only connection, with what every page needs in memory; opened again when results are published
queries      the SQL of every view, as the reader sees it
trajectory   what the page of a trajectory shows
own_labels   the reader's own step labels, in the form that `sources.step_labels` reads
addresses    what the address of a page says
app, pages   the web application
"""

from cpmi_dagster.resources.web.explorer.app import explorer, serve_explorer

__all__ = ["explorer", "serve_explorer"]
