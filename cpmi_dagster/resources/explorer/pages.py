"""The pages of the explorer, each a function from a request to a response."""

from pathlib import Path
from typing import Any
from urllib.parse import unquote

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.templating import Jinja2Templates

from cpmi_dagster.benchmarks.resampling import shown as interval
from cpmi_dagster.contracts.contexts import CONDITIONINGS
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.explorer import queries
from cpmi_dagster.resources.explorer.addresses import address, check_known, choice_of, number_of, text_of
from cpmi_dagster.resources.explorer.own_labels import OwnLabels
from cpmi_dagster.resources.explorer.results import LatestResults, Row, View

TEMPLATES = Path(__file__).parent / "templates"
ROWS_OF_PAGE = 40
ANNOTATOR = "annotator"
UNNAMED = "unnamed"
"""The annotator of verdicts without a name."""


class Pages:
    """The pages on a profile's home, with the annotators' labels."""

    def __init__(self, settings: Settings, labels: OwnLabels) -> None:
        self.results, self.labels = LatestResults(settings), labels
        self._templates = Jinja2Templates(directory=TEMPLATES)
        self._templates.env.globals.update(address=address, settings=settings, interval=interval)

    def trajectories(self, request: Request) -> Response:
        """A page of the trajectories that match a search."""
        results, after = self.results.get(), text_of(request.query_params, "after")
        choice = choice_of(request.query_params, results)
        with results.view() as view:
            rows = view.rows(queries.LISTED, after=after, most=ROWS_OF_PAGE + 1, **choice.filters)
            (near,) = view.rows(queries.NEIGHBOURS, id=after, **choice.filters)
            ids = [row["trajectory_id"] for row in rows[:ROWS_OF_PAGE]]
            strips = view.rows(queries.STRIPS, ids=ids, reward_type=next(iter(choice.types), ""))
            context = {
                "rows": rows[:ROWS_OF_PAGE],
                "strips": {row["trajectory_id"]: row["soft_labels"] for row in strips},
                "more": ids[-1] if len(rows) > ROWS_OF_PAGE else None,
                "matches": near["matches"],
            }
            return self.page(request, "trajectories.html", view, choice=choice, after=after, **context)

    def trajectory(self, request: Request) -> Response:
        """A trajectory: its steps under the chosen reward types, and the answers and rollouts of one step."""
        results, step = self.results.get(), number_of(request.query_params, "step") or 0
        choice = choice_of(request.query_params, results)
        with results.view() as view:
            trajectory = find_trajectory(view, request.path_params["name"], step)
            name, shard = trajectory["trajectory_id"], trajectory["shard"]
            (near,) = view.rows(queries.NEIGHBOURS, id=name, **choice.filters)
            labels = view.rows(queries.LABELS, shard, id=name, types=choice.types)
            scored = [row["conditioning"] for row in view.kept_rows(queries.CONDITIONINGS)]
            judged = self.labels.all().get(name)
            context: dict[str, Any] = {
                "trajectory": trajectory,
                "step": step,
                "near": near,
                "labels": {(row["step_index"], row["reward_type"]): row for row in labels},
                "first_error": {
                    row["step_index"]: row["probability"] for row in view.rows(queries.FIRST_ERROR, shard, id=name)
                },
                "judged": judged if judged and judged.is_of(trajectory["question"], trajectory["steps"]) else None,
                "annotator": annotator_of(request),
                "conditionings": [entry for entry in CONDITIONINGS.values() if entry.name in scored],
                "rollouts": view.rows(queries.ROLLOUTS, shard, id=name, prefix_length=step + 1),
            }
            if scored:
                names = [entry.name for entry in context["conditionings"]]
                entry = CONDITIONINGS[check_known("conditioning", choice.conditioning or names[0], names)]
                after, before = entry.contexts(step, len(trajectory["steps"]) - 1)
                contrast = {"before": before.kind, "before_step": before.step_index}
                contrast |= {"after": after.kind, "after_step": after.step_index}
                rows = view.rows(queries.ANSWERS, shard, id=name, gold=trajectory["gold_answer"], **contrast)
                context |= {"conditioning": entry, "answers": rows}
            return self.page(request, "trajectory.html", view, choice=choice, **context)

    def disagreement(self, request: Request) -> Response:
        """The steps on which the first two chosen reward types differ most, among the matches of a search."""
        results = self.results.get()
        choice = choice_of(request.query_params, results)
        if len(choice.types) < 2:
            raise HTTPException(404, "choose two reward types: disagreement needs two")
        with results.view() as view:
            pair = {"first": choice.types[0], "second": choice.types[1]}
            steps = view.rows(queries.DISAGREEMENT, most=ROWS_OF_PAGE, **pair, **choice.filters)
            return self.page(request, "disagreement.html", view, choice=choice, steps=steps, **pair)

    def refresh(self, _request: Request, _form: QueryParams) -> Response:
        """Drop the cached results, and go to the list."""
        self.results.refresh()
        return RedirectResponse("/", 303)

    def refuse(self, request: Request, error: Exception) -> Response:
        """A page with the sentence of an error."""
        sentence, status = (error.detail, error.status_code) if isinstance(error, HTTPException) else (str(error), 503)
        return self._templates.TemplateResponse(request, "message.html", {"sentence": sentence}, status_code=status)

    def page(self, request: Request, template: str, view: View, **context: Any) -> Response:
        """A page from a template."""
        results = view.results
        every = {"statements": view.statements, "types": results.reward_types, "tasks": results.tasks}
        return self._templates.TemplateResponse(request, template, {**every, "opened": results.opened, **context})


def find_trajectory(view: View, name: str, step: int) -> Row:
    """The trajectory of an id, ours or the user's; an HTTPException 404 if it is unknown or lacks the step."""
    rows = view.rows(queries.TRAJECTORY, id=name)
    if not rows:
        raise HTTPException(404, f"there is no labelled trajectory `{name[:100]}`; search for one, or try cpmi trace")
    last = len(rows[0]["steps"]) - 1
    if step > last:
        raise HTTPException(404, f"trajectory {rows[0]['trajectory_id']} has steps 0 to {last}, and no step {step}")
    return rows[0]


def annotator_of(request: Request) -> str:
    """The annotator's name, from the cookie."""
    return unquote(request.cookies.get(ANNOTATOR, UNNAMED))
