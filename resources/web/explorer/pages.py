"""The pages of the explorer, each a function from a request to an answer."""

from pathlib import Path
from typing import Any, get_args
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.templating import Jinja2Templates

from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.web.explorer import queries
from cpmi_dagster.resources.web.explorer.addresses import Choice, address, choice_of, known, number_of, text_of
from cpmi_dagster.resources.web.explorer.own_labels import OwnLabels, Verdict, whole_set
from cpmi_dagster.resources.web.explorer.snapshot import Row, Snapshots, View
from cpmi_dagster.resources.web.explorer.trajectory import evidence_of, found_trajectory, steps_of
from cpmi_dagster.rewards.dataset import DATASET_REWARD

TEMPLATES = Path(__file__).parent / "templates"
ROWS_OF_PAGE = 40
LONGEST_BODY = 2_000
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
DIVISIONS = 10
WHOLE_FILE = "whole_labels.jsonl"
PARTS = ("task", "position", "operation")


class Pages:
    """The views of a home.

    Args:
        settings: the profile.
        own: the reader's labels.
    """

    def __init__(self, settings: Settings, own: OwnLabels) -> None:
        self._settings = settings
        self.snapshots = Snapshots(settings)
        self._own = own
        self._templates = Jinja2Templates(directory=TEMPLATES)
        self._templates.env.globals.update(address=address, shade=shade, settings=settings, whole_file=WHOLE_FILE)
        self._templates.env.filters.update(signed=signed, plain=plain)

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
            return self._page(request, "trajectories.html", view, choice, **shown)

    def trajectory(self, request: Request) -> Response:
        """A trajectory: its steps under the chosen reward types, and what one step's labels came from."""
        snapshot = self.snapshots.current()
        choice, step = choice_of(request.query_params, snapshot), number_of(request.query_params, "step") or 0
        with snapshot.view() as view:
            trajectory = found_trajectory(view, request.path_params["name"])
            name = trajectory["trajectory_id"]
            _check_step(trajectory, step)
            (near,) = view.rows(queries.NEIGHBOURS, id=name, **choice.filters)
            shown: dict[str, Any] = {
                "trajectory": trajectory,
                "near": near,
                "step": step,
                "steps": steps_of(view, trajectory, choice.types, self._own.all().get(name)),
                "evidence": evidence_of(view, trajectory, step, choice),
            }
            return self._page(request, "trajectory.html", view, choice, **shown)

    def disagreement(self, request: Request) -> Response:
        """Where two reward types disagree: the page, whose figures come with a second request."""
        snapshot = self.snapshots.current()
        first, second, part = _compared(request, snapshot.reward_types)
        with snapshot.view() as view:
            return self._page(request, "disagreement.html", view, None, first=first, second=second, part=part)

    def disagreement_figures(self, request: Request) -> Response:
        """The figures of the page of disagreement."""
        snapshot = self.snapshots.current()
        first, second, part = _compared(request, snapshot.reward_types)
        with snapshot.view() as view:
            figures = view.kept_rows(queries.DISAGREEMENT, first=first, second=second)
            steps = view.kept_rows(queries.DISAGREEING_STEPS, first=first, second=second, **part)
            parts = {name: [row for row in figures if row["part"] == name] for name in PARTS}
            shown = {"first": first, "second": second, "part": part, "parts": parts, "steps": steps}
            return self._page(request, "disagreement_figures.html", view, None, **shown)

    def distributions(self, request: Request) -> Response:
        """How rewards are distributed: the page, whose figures come with a second request."""
        snapshot = self.snapshots.current()
        choice = choice_of(request.query_params, snapshot)
        with snapshot.view() as view:
            return self._page(request, "distributions.html", view, choice)

    def distribution_figures(self, request: Request) -> Response:
        """The figures of the page of distributions."""
        snapshot = self.snapshots.current()
        choice = choice_of(request.query_params, snapshot)
        with snapshot.view() as view:
            rows = view.kept_rows(queries.DISTRIBUTIONS, types=choice.types)
            figures = {name: [row for row in rows if row["reward_type"] == name] for name in choice.types}
            return self._page(request, "distribution_figures.html", view, choice, figures=figures)

    def own_labels(self, request: Request) -> Response:
        """The reader's own labels, and how a profile uses them."""
        snapshot = self.snapshots.current()
        choice = choice_of(request.query_params, snapshot)
        with snapshot.view() as view:
            return self._page(request, "own_labels.html", view, choice, own=self._own.all(), path=self._own.path)

    def whole_labels(self, request: Request) -> Response:
        """A label for every trajectory as a file: the reader's word, and elsewhere the soft labels of a reward type."""
        snapshot = self.snapshots.current()
        base = known("base", text_of(request.query_params, "base"), snapshot.reward_types)
        with snapshot.view() as view:
            rows = view.rows(queries.WHOLE_LABELS, base=base)
        headers = {"Content-Disposition": f'attachment; filename="{WHOLE_FILE}"'}
        return StreamingResponse(whole_set(rows, self._own.all()), media_type="application/jsonl", headers=headers)

    def judge(self, request: Request, body: bytes) -> Response:
        """Keep what the reader says of a step, and go back to it."""
        snapshot = self.snapshots.current()
        choice = choice_of(request.query_params, snapshot)
        given = _form(body)
        step, verdict = int(given.get("step", "")), known("verdict", given.get("verdict", ""), VERDICTS)
        with snapshot.view() as view:
            trajectory = found_trajectory(view, request.path_params["name"])
            _check_step(trajectory, step)
            name, base = trajectory["trajectory_id"], choice.types[0]
            rows = view.rows(queries.SOFT_LABELS, id=name, types=[base])
        if len(rows) != len(trajectory["steps"]):
            raise HTTPException(
                409, f"`{base}` has no soft labels of {name}; run cpmi run, or choose another type first"
            )
        self._own.judge(name, step, verdict, base, [row["soft_label"] for row in rows])
        return RedirectResponse(address("trajectory", name, **choice.asked, step=step), 303)

    def message(self, request: Request, sentence: str, status: int) -> Response:
        """A page that says one sentence."""
        context = {"sentence": sentence, "choice": None, "shown": []}
        return self._templates.TemplateResponse(request, "message.html", context, status_code=status)

    def _page(self, request: Request, template: str, view: View, choice: Choice | None, **more: Any) -> Response:
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


def _check_step(trajectory: Row, step: int) -> None:
    last = len(trajectory["steps"]) - 1
    if not 0 <= step <= last:
        raise HTTPException(404, f"trajectory {trajectory['trajectory_id']} has steps 0 to {last}, and no step {step}")


def _form(body: bytes) -> dict[str, str]:
    """The fields of a form that was sent.

    Raises:
        HTTPException: it is too long, or no form with a step.
    """
    try:
        fields = parse_qs(body[: LONGEST_BODY + 1].decode(), max_num_fields=10)
    except ValueError as error:
        raise HTTPException(400, "send a form with the fields step and verdict") from error
    given = {name: values[0] for name, values in fields.items()}
    step = given.get("step", "")
    if len(body) > LONGEST_BODY or not (step.isascii() and step.isdecimal() and len(step) < 7):
        raise HTTPException(400, "step: write a whole number, 0 or more")
    return given
