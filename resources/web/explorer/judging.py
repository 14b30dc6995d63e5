"""The pages on which annotators judge steps, and what comes of it: a queue of drawn steps, figures, files.

The queue is the same for every annotator, so that they can be compared, and shows no label. Who judges is said once and
kept in a cookie.
"""

from typing import get_args
from urllib.parse import quote

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.web.explorer import queries
from cpmi_dagster.resources.web.explorer.addresses import address, check_known, choice_of, number_of, text_of
from cpmi_dagster.resources.web.explorer.figures import figures_of, judgements_of
from cpmi_dagster.resources.web.explorer.own_labels import Verdict
from cpmi_dagster.resources.web.explorer.pages import ANNOTATOR, Pages, annotator_of, find_trajectory
from cpmi_dagster.rewards.dataset import DATASET_REWARD

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
LONGEST_NAME = 40
LONGEST_QUEUE = 1_000
YEAR = 365 * 24 * 3600


class Judging:
    """The pages of the annotators, beside the other pages of a profile's home."""

    def __init__(self, pages: Pages, settings: Settings) -> None:
        self._pages, self._settings, self._labels = pages, settings, pages.labels

    def queue(self, request: Request) -> Response:
        """The next step of the queue that the annotator has not judged, or the question who judges."""
        results, annotator = self._pages.results.get(), annotator_of(request)
        start = number_of(request.query_params, "place") or 0
        with results.view() as view:
            base = DATASET_REWARD if DATASET_REWARD in results.reward_types else next(iter(results.reward_types), "")
            rows = view.kept_rows(queries.QUEUE, base=base, seed=self._settings.seed, most=LONGEST_QUEUE)
            steps = [(row["trajectory_id"], row["step_index"]) for row in rows]
            mine = {(name, step) for name, label in self._labels.all().items() for step in label.by.get(annotator, {})}
            left = [place for place, step in enumerate(steps) if step not in mine]
            place = next((place for place in left if place >= start), len(steps))
            context = {
                "is_named": ANNOTATOR in request.cookies,
                "annotator": annotator,
                "asked": find_trajectory(view, *steps[place]) if place < len(steps) else None,
                "step": steps[place][1] if place < len(steps) else None,
                "place": place,
                "judged": len(mine),
                "left": len(left),
                "last": next(((each, *steps[each]) for each in range(place - 1, -1, -1) if steps[each] in mine), None),
            }
            return self._pages.page(request, "queue.html", view, **context)

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
        results = self._pages.results.get()
        choice = choice_of(request.query_params, results)
        step, place = number_of(form, "step"), number_of(form, "place")
        if step is None:
            raise HTTPException(400, "step: write a whole number, 0 or more")
        verdict = check_known("verdict", text_of(form, "verdict"), VERDICTS)
        with results.view() as view:
            trajectory = find_trajectory(view, request.path_params["name"], step)
            name, base = trajectory["trajectory_id"], next(iter(choice.types), "")
            rows = view.rows(queries.LABELS, trajectory["shard"], id=name, types=[base])
        labels = {row["step_index"]: row["soft_label"] for row in rows}
        soft_labels = [labels.get(each) for each in range(len(trajectory["steps"]))]
        self._labels.judge(name, step, annotator_of(request), verdict, base, soft_labels)
        if place is None:
            return RedirectResponse(address("trajectory", name, **choice.asked, step=step), 303)
        return RedirectResponse(address("queue", place=place + (verdict != "clear")), 303)

    def figures(self, request: Request) -> Response:
        """What the judged steps say of every reward type, and of the annotators."""
        with self._pages.results.get().view() as view:
            figures = figures_of(view, self._labels.all(), self._settings)
            return self._pages.page(request, "own_figures.html", view, figures=figures)

    def own_labels(self, request: Request) -> Response:
        """The annotators' labels, and how a profile uses them."""
        labels = self._labels.all()
        with self._pages.results.get().view() as view:
            rows = view.rows(queries.JUDGED_TRAJECTORIES, ids=list(labels))
            ids = {row["trajectory_id"]: row["source_id"] for row in rows}
            context = {"labels": labels, "source_ids": ids, "path": self._labels.path.absolute()}
            return self._pages.page(request, "own_labels.html", view, **context)

    def download(self, request: Request) -> Response:
        """The judged steps as a file: the labels as they are kept, or a table with a row for each judgement."""
        form, labels = check_known("form", request.path_params["form"], ("csv", "jsonl")), self._labels.all()
        text = "".join(label.line for label in labels.values())
        if form == "csv":
            with self._pages.results.get().view() as view:
                trajectories = view.frame(queries.JUDGED_TRAJECTORIES, ids=list(labels))
            text = judgements_of(labels.values(), trajectories).write_csv()
        headers = {"Content-Disposition": f'attachment; filename="own_labels.{form}"'}
        return Response(text, media_type=f"text/{form}", headers=headers)
