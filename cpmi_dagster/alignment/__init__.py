"""Gold answers: each question is looked for among the reference problems."""

from cpmi_dagster.alignment.align import align_questions

__all__ = ["align_questions"]
