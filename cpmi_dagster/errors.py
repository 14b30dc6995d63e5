"""Every error a user can cause: one sentence that says what, which row or setting, and what to do."""


class CpmiError(Exception):
    """Base of all errors that a user can mend; commands print its message and exit with 1."""


class SettingsError(CpmiError):
    """A profile, setting or environment variable is wrong."""


class SourceError(CpmiError):
    """A data source cannot be read, or its rows lack a field."""


class MalformedRow(CpmiError, ValueError):
    """A source row that cannot become a trajectory; it goes to `rejected_rows` with this message as the reason."""


class ModelError(CpmiError):
    """A model folder is incomplete, or a model cannot do what is asked of it."""


class TrainingError(CpmiError):
    """A reward model cannot be trained: bad labels, nothing to learn from, or a loss that is not finite."""


class ScoringError(CpmiError):
    """A trajectory cannot be scored; the message names it."""


class LakeError(CpmiError):
    """A file of the lake is missing, truncated or not one of ours."""


class BenchmarkError(CpmiError):
    """Predictions do not cover a benchmark, or do not fit its steps."""
