"""The pages on which annotators judge solutions: a queue of sampled ones, figures, files.

The queue asks for the first wrong step of a solution, by one key, as ProcessBench asked its annotators. The page of a
trajectory takes judgements of single steps. The queue is the same for every annotator, so that they can be compared,
and shows no label. A cookie keeps the annotator's name.
"""

from collections.abc import Mapping
from typing import get_args
from urllib.parse import quote

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from cpmi_dagster.benchmarks.label_quality import FEWEST_FOR_AN_ANSWER, FEWEST_SOLUTIONS
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.explorer import queries
from cpmi_dagster.resources.explorer.addresses import address, check_known, choice_of, number_of, text_of
from cpmi_dagster.resources.explorer.figures import figures_of, fitting_labels, judgements_of
from cpmi_dagster.resources.explorer.own_labels import CLEAR, Verdict, changes_of, changes_up_to
from cpmi_dagster.resources.explorer.pages import ANNOTATOR, Pages, annotator_of, find_trajectory
from cpmi_dagster.resources.explorer.results import Row, View

ALL_RIGHT = "none"
STEP_KEYS = "0123456789bcdefghilmnopqrtvwxyz"
"""The key by step of a solution: digits, then letters without another meaning on the page."""
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
LONGEST_NAME = 40
LONGEST_QUEUE = 1_000
YEAR = 365 * 24 * 3600


class Judging:
    """The pages of the annotators."""

    def __init__(self, pages: Pages, settings: Settings) -> None:
        self._pages, self._settings, self._labels = pages, settings, pages.labels

    def queue(self, request: Request) -> Response:
        """The next solution of the queue that the annotator has not judged; asks for a name first."""
        annotator, start = annotator_of(request), number_of(request.query_params, "place") or 0
        with self._pages.results.get().view() as view:
            names, others = self._queue(view)
            mine = {name for name, label in self._labels.all().items() if label.is_judged_by(annotator)}
            left = [place for place, name in enumerate(names) if name not in mine]
            place = next((place for place in left if place >= start), len(names))
            context = {
                "is_named": ANNOTATOR in request.cookies,
                "annotator": annotator,
                "asked": find_trajectory(view, names[place], 0) if place < len(names) else None,
                "keys": STEP_KEYS,
                "all_right": ALL_RIGHT,
                "place": place,
                "judged": len(mine.intersection(names)),
                "needed": max(0, min(FEWEST_SOLUTIONS, len(names) + others) - others),
                "left": len(left),
                "last": next(((each, names[each]) for each in range(place - 1, -1, -1) if names[each] in mine), None),
            }
            return self._pages.page(request, "queue.html", view, **context)

    def _queue(self, view: View) -> tuple[list[str], int]:
        """The ids of solutions, in the order of every annotator's queue, and the number of those that are left out.

        These are judged by `sources.step_truth`, and not here. If it judges all, none is left out, so that people can
        be compared with it.
        """
        rows = view.kept_rows(queries.QUEUE, base=self._base(view), seed=self._settings.seed, most=LONGEST_QUEUE)
        labels = self._labels.all()
        asked = [row for row in rows if not row["is_judged"] or row["trajectory_id"] in labels] or rows
        return [row["trajectory_id"] for row in asked], len(rows) - len(asked)

    def _base(self, view: View) -> str:
        """The label that the report judges; if there is none yet, the first one."""
        types, judged = view.results.reward_types, self._settings.trained_labels[0]
        return judged if judged in types else next(iter(types), "")

    def name(self, _request: Request, form: QueryParams) -> Response:
        """Keep the annotator's name."""
        name = text_of(form, ANNOTATOR).strip()
        if not 0 < len(name) <= LONGEST_NAME:
            raise HTTPException(400, f"{ANNOTATOR}: write a name of at most {LONGEST_NAME} characters")
        answer = RedirectResponse(address("queue"), 303)
        answer.set_cookie(ANNOTATOR, quote(name), max_age=YEAR, httponly=True, samesite="strict")
        return answer

    def judge(self, request: Request, form: QueryParams) -> Response:
        """Keep the annotator's verdict on a step, and go back to its trajectory."""
        results = self._pages.results.get()
        choice = choice_of(request.query_params, results)
        if (step := number_of(form, "step")) is None:
            raise HTTPException(400, "step: write a whole number, 0 or more")
        verdict = check_known("verdict", text_of(form, "verdict"), VERDICTS)
        with results.view() as view:
            trajectory = find_trajectory(view, request.path_params["name"], step)
            self._keep(request, view, trajectory, next(iter(choice.types), ""), changes_of(verdict, step))
        return RedirectResponse(address("trajectory", trajectory["trajectory_id"], **choice.asked, step=step), 303)

    def judge_solution(self, request: Request, form: QueryParams) -> Response:
        """Keep the first wrong step of a solution, and go on with the queue."""
        said, place = text_of(form, "first_wrong"), number_of(form, "place") or 0
        first = None if said in (ALL_RIGHT, CLEAR) else number_of(form, "first_wrong")
        if first is None and said not in (ALL_RIGHT, CLEAR):
            raise HTTPException(400, f"first_wrong: write the number of a step, from 0, {ALL_RIGHT} or {CLEAR}")
        with self._pages.results.get().view() as view:
            trajectory = find_trajectory(view, request.path_params["name"], first or 0)
            changes = changes_up_to(first, len(trajectory["steps"]))
            if said == CLEAR:
                changes = dict.fromkeys(changes, None)
            self._keep(request, view, trajectory, next(iter(view.results.reward_types), ""), changes)
        return RedirectResponse(address("queue", place=place + (said != CLEAR)), 303)

    def _keep(
        self, request: Request, view: View, trajectory: Row, base: str, changes: Mapping[int, bool | None]
    ) -> None:
        """Keep an annotator's verdicts, with the soft labels of the reward type `base` for the other steps."""
        name = trajectory["trajectory_id"]
        rows = view.rows(queries.LABELS, trajectory["shard"], id=name, types=[base])
        labels = {row["step_index"]: row["soft_label"] for row in rows}
        soft_labels = [labels.get(each) for each in range(len(trajectory["steps"]))]
        self._labels.judge(trajectory, annotator_of(request), changes, base, soft_labels)

    def figures(self, request: Request) -> Response:
        """The figures on the judged solutions."""
        with self._pages.results.get().view() as view:
            figures = figures_of(view, self._labels.all(), self._settings, self._base(view))
            asked, others = self._queue(view)
            needs = {"needed": min(FEWEST_SOLUTIONS, len(asked) + others), "least": FEWEST_FOR_AN_ANSWER}
            return self._pages.page(request, "own_figures.html", view, figures=figures, **needs)

    def own_labels(self, request: Request) -> Response:
        """The annotators' labels, and the lines of a profile that use them."""
        labels = self._labels.all()
        with self._pages.results.get().view() as view:
            rows = view.rows(queries.JUDGED_TRAJECTORIES, ids=list(labels))
            ids = {row["trajectory_id"]: row["source_id"] for row in rows}
            context = {"labels": labels, "source_ids": ids, "path": self._labels.path.absolute()}
            return self._pages.page(request, "own_labels.html", view, **context)

    def download(self, request: Request) -> Response:
        """The judged steps as a file: the labels as kept, or a table with a row per judgement."""
        form, labels = check_known("form", request.path_params["form"], ("csv", "jsonl")), self._labels.all()
        text = "".join(label.line for label in labels.values())
        if form == "csv":
            with self._pages.results.get().view() as view:
                trajectories = view.frame(queries.JUDGED_TRAJECTORIES, ids=list(labels))
            text = judgements_of(fitting_labels(labels, trajectories).values(), trajectories).write_csv()
        headers = {"Content-Disposition": f'attachment; filename="own_labels.{form}"'}
        return Response(text, media_type=f"text/{form}", headers=headers)
