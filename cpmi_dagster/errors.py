"""Errors that a user can correct. A message is one sentence: what is wrong, in which row or setting, what to do."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pydantic import ValidationError


class CpmiError(Exception):
    """Base of the errors of this package; a command prints the message and exits with the code."""

    exit_code = 1


class SettingsError(CpmiError):
    """A profile, setting or environment variable is wrong."""


class UsageError(SettingsError):
    """An option of a command is wrong."""

    exit_code = 2


class Interrupted(CpmiError):
    """A signal has stopped a run, as Ctrl-C does; the code is the shell's for that."""

    exit_code = 130


class SourceError(CpmiError):
    """A data source cannot be read, or its rows lack a field."""


class RepeatedFieldError(SourceError):
    """A JSON object has a field twice."""


class MalformedRow(CpmiError, ValueError):
    """A source row that cannot become a trajectory; the message is its reason in `rejected_rows`."""


class ModelError(CpmiError):
    """A model folder is incomplete, or a model lacks what a stage needs: a decoder, a tokenizer, context length."""


class TransientError(ModelError):
    """A failure that may pass: a server that does not answer, memory that other processes hold."""


class MissingModelError(ModelError):
    """A model of the profile does not exist or cannot be loaded."""


class TrainingError(CpmiError):
    """A reward model cannot be trained: bad labels, nothing to learn from, or a loss that is not finite."""


class ScoringError(CpmiError):
    """A trajectory cannot be scored; the message names it."""


class LakeError(CpmiError):
    """A file of the lake is missing, truncated or not written by this package."""


class StorageError(CpmiError):
    """A file cannot be written or locked: no room, no permission, or a file system without locks."""


class BenchmarkError(CpmiError):
    """Predictions do not cover a benchmark, or do not fit its steps."""


# names, so that libraries which a profile does not use are not imported
TRANSIENT_NAMES = {"OutOfMemoryError", "APIConnectionError", "RateLimitError", "InternalServerError", "TransportError"}
TRANSIENT_TYPES = (TransientError, MemoryError, ConnectionError, TimeoutError)


def is_transient(error: BaseException | None) -> bool:
    """Whether an error or one of its causes may pass: memory, a server, the network."""
    while error is not None:
        names = {kind.__name__ for kind in type(error).__mro__}
        if isinstance(error, TRANSIENT_TYPES) or names & TRANSIENT_NAMES:
            return True
        error = error.__cause__
    return False


FATAL_NAMES = {"MissingModelError", "SettingsError", "StorageError", "UsageError"}
"""Names of errors that every partition would meet."""


def is_fatal(error: BaseException) -> bool:
    """Whether other partitions would fail as well: a model, the disk or a setting is wrong."""
    return type(error).__name__ in FATAL_NAMES


PLAIN_REASONS = {  # by pydantic's message; follows the name of a field
    "Field required": "it is missing",
    "List should have at least 1 item after validation, not 0": "it is empty",
    "Input should be a valid string": "it must be text",
    "Input should be a valid list": "it must be a list",
    "Input should be a valid integer": "it must be a whole number",
    "Input should be a valid number": "it must be a number",
    "Input should be a valid dictionary": "it must be a mapping",
    "Input should be a valid boolean": "it must be true or false",
}


class Complaint(NamedTuple):
    """The first error of a pydantic model: place (empty for the whole model), reason, pydantic's type, value."""

    place: str
    reason: str
    kind: str
    given: object

    def __str__(self) -> str:
        return f"`{self.place}`: {self.reason}" if self.place else self.reason


def first_complaint(error: "ValidationError") -> Complaint:
    """The first error that pydantic lists, e.g. `recipes.0.name`: it must be text."""
    first = error.errors(include_url=False, include_context=False)[0]
    place = ".".join(map(str, first["loc"]))
    words = first["msg"].removeprefix("Value error, ")
    words = words.partition(" or instance of ")[0].partition(", unable to parse ")[0]
    plain = words.replace("Input should be", "it must be").replace("List should have", "it must have")
    reason = PLAIN_REASONS.get(words, plain.partition(" after validation, ")[0])
    return Complaint(place, reason, first["type"], first["input"])


def first_line(error: BaseException) -> str:
    """The first line of a library's message, or the error's type if it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def described(error: BaseException) -> str:
    """The message of an error of this package; type and first line of any other."""
    return with_notes(error) if isinstance(error, CpmiError) else f"{type(error).__name__}: {first_line(error)}"


def with_notes(error: BaseException) -> str:
    """The message of an error, followed by its notes in brackets."""
    notes = getattr(error, "__notes__", ())
    return f"{error} ({'; '.join(notes)})" if notes else str(error)
