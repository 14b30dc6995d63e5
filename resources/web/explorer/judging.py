"""The pages on which annotators judge steps, and what comes of it: a queue of drawn steps, figures, files.

The queue is the same for every annotator, so that they can be compared, and shows no label. Who judges is said once and
kept in a cookie.
"""

import json
from collections.abc import Iterable
from itertools import islice
from typing import get_args
from urllib.parse import quote

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.web.explorer import queries
from cpmi_dagster.resources.web.explorer.addresses import (
    ANNOTATOR,
    LONGEST_NAME,
    address,
    annotator_of,
    choice_of,
    known,
    number_of,
    text_of,
)
from cpmi_dagster.resources.web.explorer.annotation_tools import FORMS, AskedStep
from cpmi_dagster.resources.web.explorer.figures import figures_of
from cpmi_dagster.resources.web.explorer.own_labels import OwnLabel, Verdict, whole_set
from cpmi_dagster.resources.web.explorer.pages import WHOLE_FILE, Pages, check_step, source_ids
from cpmi_dagster.resources.web.explorer.snapshot import Row, View
from cpmi_dagster.resources.web.explorer.trajectory import found_trajectory
from cpmi_dagster.rewards.dataset import DATASET_REWARD

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
LONGEST_QUEUE = 1_000
YEAR = 365 * 24 * 3600


class Judging:
    """The pages of the annotators.

    Args:
        pages: the other pages of the explorer.
        settings: the profile.
    """

    def __init__(self, pages: Pages, settings: Settings) -> None:
        self._pages, self._settings, self._own = pages, settings, pages.own
        # places in the queue, by annotator, for `undo`
        self._done: dict[str, list[tuple[int, str, int]]] = {}

    def queue(self, request: Request) -> Response:
        """The next step of the queue that the annotator has not judged, or the question who judges."""
        snapshot, annotator = self._pages.snapshots.current(), annotator_of(request)
        start = number_of(request.query_params, "place") or 0
        with snapshot.view() as view:
            steps, labels = self._queue(view), self._own.all()
            mine = {(name, step) for name, label in labels.items() for step in label.by.get(annotator, {})}
            left = [place for place, step in enumerate(steps) if step not in mine]
            place = next((place for place in left if place >= start), None)
            asked = None if place is None else self._asked(view, [steps[place]], labels)[0]
            shown = {
                "is_named": ANNOTATOR in request.cookies,
                "annotator": annotator,
                "asked": asked,
                "place": place,
                "judged": len(mine),
                "left": len(left),
                "last": next(reversed(self._done.get(annotator, [])), None),
            }
            return self._pages.page(request, "queue.html", view, None, **shown)

    def name(self, _request: Request, form: QueryParams) -> Response:
        """Keep who judges from now on."""
        name = text_of(form, ANNOTATOR).strip()
        if not 0 < len(name) <= LONGEST_NAME:
            raise HTTPException(400, f"{ANNOTATOR}: write a name of at most {LONGEST_NAME} characters")
        answer = RedirectResponse(address("queue"), 303)
        answer.set_cookie(ANNOTATOR, quote(name), max_age=YEAR, httponly=True, samesite="strict")
        return answer

    def judge(self, request: Request, form: QueryParams) -> Response:
        """Keep what the annotator says of a step, and go on with the queue, or back to the step's trajectory."""
        snapshot, annotator = self._pages.snapshots.current(), annotator_of(request)
        choice = choice_of(request.query_params, snapshot)
        step, place = number_of(form, "step"), number_of(form, "place")
        if step is None:
            raise HTTPException(400, "step: write a whole number, 0 or more")
        verdict = known("verdict", text_of(form, "verdict"), VERDICTS)
        with snapshot.view() as view:
            trajectory = found_trajectory(view, request.path_params["name"])
            check_step(trajectory, step)
            name, base = trajectory["trajectory_id"], next(iter(choice.types), "")
            rows = view.rows(queries.SOFT_LABELS, id=name, types=[base])
        soft_labels = {row["step_index"]: row["soft_label"] for row in rows}
        every = [soft_labels.get(each) for each in range(len(trajectory["steps"]))]
        self._own.judge(name, step, annotator, verdict, base, every)
        if place is None:
            return RedirectResponse(address("trajectory", name, **choice.asked, step=step), 303)
        done, this = self._done.setdefault(annotator, []), (place, name, step)
        if verdict != "clear":
            done.append(this)
        elif this in done:
            done.remove(this)
        return RedirectResponse(address("queue", place=place + (verdict != "clear")), 303)

    def figures(self, request: Request) -> Response:
        """What the judged steps say of every reward type, and of the annotators."""
        snapshot, labels = self._pages.snapshots.current(), self._own.all()
        with snapshot.view() as view:
            figures = figures_of(view, labels, self._settings)
            return self._pages.page(request, "own_figures.html", view, None, figures=figures)

    def own_labels(self, request: Request) -> Response:
        """The annotators' labels, and how a profile or another tool uses them."""
        snapshot = self._pages.snapshots.current()
        choice = choice_of(request.query_params, snapshot)
        own = self._own.all()
        shown = {"own": own, "path": self._own.path.absolute(), "forms": list(FORMS)}
        with snapshot.view() as view:
            ids = source_ids(view, own)
            return self._pages.page(request, "own_labels.html", view, choice, source_ids=ids, **shown)

    def whole_labels(self, request: Request) -> Response:
        """A label for every trajectory as a file: the annotators' word, else the soft labels of a reward type."""
        snapshot = self._pages.snapshots.current()
        base = known("base", text_of(request.query_params, "base"), snapshot.reward_types)
        with snapshot.view() as view:
            rows = view.rows(queries.WHOLE_LABELS, base=base)
        return _file(WHOLE_FILE, whole_set(rows, self._own.all()), "application/jsonl")

    def exported(self, request: Request) -> Response:
        """Judged steps, and the next ones of the queue, as an annotation tool imports them."""
        snapshot, labels = self._pages.snapshots.current(), self._own.all()
        form = known("form", request.path_params["form"], list(FORMS))
        with snapshot.view() as view:
            judged = [(name, step) for name, label in labels.items() for step in label.majority]
            known_steps = set(judged)
            open_steps = (step for step in self._queue(view) if step not in known_steps)
            more = islice(open_steps, number_of(request.query_params, "more") or 0)
            asked = self._asked(view, [*judged, *more], labels)
        text = json.dumps([FORMS[form](each) for each in asked], ensure_ascii=False, indent=1)
        return _file(f"{form}.json", [text], "application/json")

    def _queue(self, view: View) -> list[tuple[str, int]]:
        """The drawn steps, in the order in which they are judged; those of other labels are others."""
        types = view.snapshot.reward_types
        base = DATASET_REWARD if DATASET_REWARD in types else next(iter(types), "")
        rows = view.kept_rows(queries.QUEUE, base=base, seed=self._settings.seed, most=LONGEST_QUEUE)
        return [(row["trajectory_id"], row["step_index"]) for row in rows]

    def _asked(self, view: View, steps: list[tuple[str, int]], labels: dict[str, OwnLabel]) -> list[AskedStep]:
        """The texts of some steps, and what annotators say of them; without steps that the source no longer has."""
        rows = view.rows(queries.JUDGED_TRAJECTORIES, ids=list({name for name, _ in steps}))
        by_id = {row["trajectory_id"]: row for row in rows}
        there = [(name, step) for name, step in steps if name in by_id and step < len(by_id[name]["steps"])]
        return [_asked_step(by_id[name], step, labels.get(name)) for name, step in there]


def _asked_step(row: Row, step: int, label: OwnLabel | None) -> AskedStep:
    return AskedStep(
        trajectory_id=row["trajectory_id"],
        step_index=step,
        question=row["question"],
        before="\n\n".join(row["steps"][:step]),
        step=row["steps"][step],
        said={name: said[step] for name, said in label.by.items() if step in said} if label else {},
        majority=label.majority.get(step) if label else None,
    )


def _file(name: str, parts: Iterable[str], media_type: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(parts, media_type=media_type, headers=headers)
