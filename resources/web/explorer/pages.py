"""The pages of the explorer, each a function from a request to an answer."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.templating import Jinja2Templates

from cpmi_dagster.benchmarks.resampling import shown as interval
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.web.explorer import queries
from cpmi_dagster.resources.web.explorer.addresses import (
    Choice,
    address,
    annotator_of,
    choice_of,
    known,
    number_of,
    text_of,
)
from cpmi_dagster.resources.web.explorer.own_labels import OwnLabels
from cpmi_dagster.resources.web.explorer.snapshot import Row, Snapshots, View
from cpmi_dagster.resources.web.explorer.trajectory import evidence_of, found_trajectory, steps_of
from cpmi_dagster.rewards.dataset import DATASET_REWARD

TEMPLATES = Path(__file__).parent / "templates"
ROWS_OF_PAGE = 40
DIVISIONS = 10
WHOLE_FILE = "whole_labels.jsonl"
PARTS = ("task", "position", "operation")


class Pages:
    """The views of a home.

    Args:
        settings: the profile.
        own: the annotators' labels.
    """

    def __init__(self, settings: Settings, own: OwnLabels) -> None:
        self._settings = settings
        self.snapshots = Snapshots(settings)
        self.own = own
        self._templates = Jinja2Templates(directory=TEMPLATES)
        self._templates.env.globals.update(address=address, shade=shade, settings=settings, whole_file=WHOLE_FILE)
        self._templates.env.filters.update(signed=signed, plain=plain, interval=interval)

    def trajectories(self, request: Request) -> Response:
        """The trajectories that match a search, a page of them."""
        snapshot = self.snapshots.current()
        choice = choice_of(request.query_params, snapshot)
        with snapshot.view() as view:
            after = text_of(request.query_params, "after")
            rows = view.rows(queries.LISTED, after=after, most=ROWS_OF_PAGE + 1, **choice.filters)
            (count,) = view.rows(queries.COUNTED, **choice.filters)
            page = rows[:ROWS_OF_PAGE]
            more = page[-1]["trajectory_id"] if len(rows) > ROWS_OF_PAGE else None
            strips = _strips(view, page, choice)
            shown = {"rows": page, "strips": strips, "after": after, "more": more, "matches": count["matches"]}
            return self.page(request, "trajectories.html", view, choice, **shown)

    def trajectory(self, request: Request) -> Response:
        """A trajectory: its steps under the chosen reward types, and what one step's labels came from."""
        snapshot = self.snapshots.current()
        choice, step = choice_of(request.query_params, snapshot), number_of(request.query_params, "step") or 0
        with snapshot.view() as view:
            trajectory = found_trajectory(view, request.path_params["name"])
            name = trajectory["trajectory_id"]
            check_step(trajectory, step)
            (near,) = view.rows(queries.NEIGHBOURS, id=name, **choice.filters)
            shown: dict[str, Any] = {
                "trajectory": trajectory,
                "near": near,
                "step": step,
                "steps": steps_of(view, trajectory, choice.types, self.own.all().get(name), annotator_of(request)),
                "evidence": evidence_of(view, trajectory, step, choice),
            }
            return self.page(request, "trajectory.html", view, choice, **shown)

    def disagreement(self, request: Request) -> Response:
        """Where two reward types disagree: the page, whose figures come with a second request."""
        snapshot = self.snapshots.current()
        first, second, part = _compared(request, snapshot.reward_types)
        with snapshot.view() as view:
            return self.page(request, "disagreement.html", view, None, first=first, second=second, part=part)

    def disagreement_figures(self, request: Request) -> Response:
        """The figures of the page of disagreement."""
        snapshot = self.snapshots.current()
        first, second, part = _compared(request, snapshot.reward_types)
        with snapshot.view() as view:
            figures = view.kept_rows(queries.DISAGREEMENT, first=first, second=second)
            steps = view.kept_rows(queries.DISAGREEING_STEPS, first=first, second=second, **part)
            parts = {name: [row for row in figures if row["part"] == name] for name in PARTS}
            shown = {"first": first, "second": second, "part": part, "parts": parts, "steps": steps}
            return self.page(request, "disagreement_figures.html", view, None, **shown)

    def distributions(self, request: Request) -> Response:
        """How rewards are distributed: the page, whose figures come with a second request."""
        snapshot = self.snapshots.current()
        choice = choice_of(request.query_params, snapshot)
        with snapshot.view() as view:
            return self.page(request, "distributions.html", view, choice)

    def distribution_figures(self, request: Request) -> Response:
        """The figures of the page of distributions."""
        snapshot = self.snapshots.current()
        choice = choice_of(request.query_params, snapshot)
        with snapshot.view() as view:
            rows = view.kept_rows(queries.DISTRIBUTIONS, types=choice.types)
            figures = {name: [row for row in rows if row["reward_type"] == name] for name in choice.types}
            ends = [step["trajectory_id"] for row in rows for step in (*row["lowest_steps"], *row["highest_steps"])]
            shown = {"figures": figures, "source_ids": source_ids(view, ends)}
            return self.page(request, "distribution_figures.html", view, choice, **shown)

    def message(self, request: Request, sentence: str, status: int) -> Response:
        """A page that says one sentence."""
        context = {"sentence": sentence, "choice": None, "shown": []}
        return self._templates.TemplateResponse(request, "message.html", context, status_code=status)

    def page(self, request: Request, template: str, view: View, choice: Choice | None, **more: Any) -> Response:
        """A page from a template, with what all of them show."""
        snapshot = view.snapshot
        context = {"choice": choice, "shown": view.shown, "types": snapshot.reward_types, "tasks": snapshot.tasks}
        return self._templates.TemplateResponse(request, template, {**context, **more})


def shade(soft_label: float | None) -> str:
    """The class of a soft label's colour: `shade-0` for 0 to `shade-10` for 1, `shade-none` for none."""
    return "shade-none" if soft_label is None else f"shade-{round(min(max(soft_label, 0.0), 1.0) * DIVISIONS)}"


def signed(number: float | None, digits: int = 3) -> str:
    """A number with its sign; a dash for none."""
    return "–" if number is None else f"{number:+.{digits}f}".replace("-", "−")


def plain(number: float | None, digits: int = 3) -> str:
    """A number; a dash for none."""
    return "–" if number is None else f"{number:.{digits}f}".replace("-", "−")


def _strips(view: View, page: list[Row], choice: Choice) -> dict[str, list[float]]:
    """The soft labels of the first chosen type, by trajectory."""
    if not page or not choice.types:
        return {}
    ids = [row["trajectory_id"] for row in page]
    if choice.search or choice.task:
        # far apart, they would be read with all that lies between
        rows = view.rows(queries.STRIPS_OF, ids=ids, reward_type=choice.types[0])
    else:
        rows = view.rows(queries.STRIPS, first=ids[0], last=ids[-1], reward_type=choice.types[0])
    return {row["trajectory_id"]: row["soft_labels"] for row in rows}


def _compared(request: Request, types: list[str]) -> tuple[str, str, dict[str, Any]]:
    """The two reward types that an address compares, and the part of the steps that it looks at."""
    query = request.query_params
    if len(types) < 2:
        raise HTTPException(404, "this home has labels of one reward type, and disagreement needs two")
    at_first = DATASET_REWARD if DATASET_REWARD in types else types[0]
    first = known("first", text_of(query, "first") or at_first, types)
    second = known("second", text_of(query, "second") or next(name for name in types if name != first), types)
    part = {name: text_of(query, name) for name in ("task", "operation")}
    return first, second, {**part, "position": number_of(query, "position")}


def source_ids(view: View, names: Iterable[str]) -> dict[str, str]:
    """The user's own ids of some trajectories, by trajectory; without those that have none."""
    rows = view.rows(queries.SOURCE_IDS, ids=sorted(set(names)))
    return {row["trajectory_id"]: row["source_id"] for row in rows}


def check_step(trajectory: Row, step: int) -> None:
    """Refuse a step that a trajectory does not have.

    Raises:
        HTTPException: 404 with a sentence.
    """
    last = len(trajectory["steps"]) - 1
    if not 0 <= step <= last:
        raise HTTPException(404, f"trajectory {trajectory['trajectory_id']} has steps 0 to {last}, and no step {step}")
