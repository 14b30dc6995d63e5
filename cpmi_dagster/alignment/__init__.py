"""Gold answers: each question is looked up in the reference problems."""

from cpmi_dagster.alignment.align import align_questions

__all__ = ["align_questions"]
