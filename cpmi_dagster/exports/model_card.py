"""The README.md of an exported reward model: how to load it without this package, what it is, how good it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from cpmi_dagster.benchmarks.registry import AVERAGED_BENCHMARKS, PRMBENCH
from cpmi_dagster.benchmarks.resampling import Estimate
from cpmi_dagster.benchmarks.step_distribution import DISTRIBUTION_SUBSET
from cpmi_dagster.exports import shipped_text
from cpmi_dagster.exports.licences import Licence
from cpmi_dagster.exports.reward_models import PROCESS_REWARD_MODELS, ExportedModel
from cpmi_dagster.files.text import in_markdown
from cpmi_dagster.miniature.names import MINIATURE
from cpmi_dagster.prm.card import HEADS
from cpmi_dagster.reports.paper import format_estimate, format_figure
from cpmi_dagster.reports.quality import MEASURES
from cpmi_dagster.trajectories.templates import TEMPLATES

TEMPLATE, SNIPPET = "model_card.md.j2", "model_snippet.py.j2"


class Benchmark(NamedTuple):
    """Which benchmark a measure is of: its sets in `sources.benchmarks`, its name, and metric and subset on the hub."""

    sources: tuple[str, ...]
    name: str
    metric: str
    subset: str | None = None

    def place(self, places: Mapping[str, str]) -> str:
        """Where its sets are, each place once."""
        return ", ".join(dict.fromkeys(places[source] for source in self.sources if source in places))


MEASURED_ON: Mapping[str, Benchmark] = {
    "AUC": Benchmark((DISTRIBUTION_SUBSET,), "ProcessBench", "roc_auc", "math"),
    "PB": Benchmark(AVERAGED_BENCHMARKS, "ProcessBench", "f1"),
    "PB (official)": Benchmark(AVERAGED_BENCHMARKS, "ProcessBench", "f1"),
    "PRMB": Benchmark((PRMBENCH,), "PRMBench", "prm_score"),
    "PRMB (best)": Benchmark((PRMBENCH,), "PRMBench", "prm_score"),
    "MATH": Benchmark(("math500",), "MATH-500", "accuracy"),
    "MMLU": Benchmark(("mmlu_stem",), "MMLU-STEM", "accuracy"),
}


@dataclass(frozen=True)
class ModelFacts:
    """What a reward model's card says besides how it loads.

    Attributes:
        name: of the model, its folder's or hub id's.
        backbone: with its revision or weights hash.
        base_model: the backbone's hub id; None where it is not on the hub.
        figures: what was measured, by the names of `reports.quality.MEASURES`.
        chance: what random scores, or a blind pick among candidates, have in these measures.
        places: where the profile's benchmarks are, by name: a hub id, a path, or a part of the embedded world.
        training: settings it was trained with, by words.
        models: behind the labels it learned from, by what they did.
    """

    name: str
    profile: str
    recipe: str
    reward_type: str
    backbone: str
    base_model: str | None
    licence: Licence
    figures: Mapping[str, Estimate]
    chance: Mapping[str, float]
    places: Mapping[str, str]
    training: Mapping[str, str]
    models: Mapping[str, Sequence[str]]
    version: str


def model_card(facts: ModelFacts, model: ExportedModel) -> str:
    """The card as Markdown, its figures also as `model-index` in the metadata."""
    results, rows = [], []
    for measure, figure in facts.figures.items():
        benchmark, name, decimals = MEASURED_ON[measure], MEASURES[measure].name, MEASURES[measure].decimals
        place = benchmark.place(facts.places)
        result = EvalResult(
            task_type="token-classification",
            task_name="judging the steps of solutions",
            dataset_type=place or "unknown",
            dataset_config=benchmark.subset,
            dataset_name=f"{benchmark.name} as in profile {facts.profile}",
            metric_type=benchmark.metric,
            metric_name=name,
            metric_value=round(figure.value, decimals + 1),
        )
        results.append(result)
        by_chance = format_figure(chance, decimals) if (chance := facts.chance.get(measure)) is not None else "–"
        rows.append((name, format_estimate(figure, decimals), by_chance, place))
    metadata = ModelCardData(
        model_name=facts.name,
        base_model=facts.base_model,
        library_name="transformers",
        pipeline_tag="token-classification",
        license=facts.licence.identifier,
        tags=["process-reward-model", "prm", "cpmi"],
        eval_results=results or None,
    )
    card = ModelCard.from_template(
        metadata,
        template_str=shipped_text(TEMPLATE),
        facts=facts,
        model=model,
        snippet=snippet(facts.name, model),
        head=HEADS["linear" if model.is_linear else "two_layer"],
        is_on_vllm=model.is_linear or model.architecture in PROCESS_REWARD_MODELS.values(),
        figures=rows,
        is_generated=all(place.startswith(MINIATURE) for place in facts.places.values()),
        md=in_markdown,
    )
    return f"{card}\n"


def snippet(name: str, model: ExportedModel) -> str:
    """Python that loads the model with transformers alone and prints the probability of every step.

    Args:
        name: what it is loaded from: its folder.
    """
    from jinja2 import Environment, StrictUndefined

    template = Environment(undefined=StrictUndefined).from_string(shipped_text(SNIPPET))
    return template.render(name=name, model=model, template=TEMPLATES[0], start=list(model.start)).strip()
