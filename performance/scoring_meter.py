"""What goes through a model, seen from outside: tokens, padding included, and the seconds of its forward passes.

Hooks on the model's body, its first layer and its projection to the vocabulary measure every contestant alike:

    with ForwardMeter(model.model) as meter:
        answer_logprobs(...)
    meter.tokens 6183   meter.rows [(1, 1021), (1, 988), ...]   meter.seconds 5.2

On a GPU the seconds are those between two events in its stream, so that nothing waits for the measurement.
"""

import time
from types import TracebackType
from typing import Any

import torch
from transformers import PreTrainedModel

Mark = float | torch.cuda.Event


class ForwardMeter:
    """Counts and times the forward passes of a model inside a `with` block.

    Attributes:
        rows: (sequences, tokens) of every pass through the layers.
        projected: positions projected to the vocabulary.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self.rows: list[tuple[int, int]] = []
        self.projected = 0
        self._body: Any = model.base_model
        self._layer = next(module for module in self._body.modules() if isinstance(module, torch.nn.ModuleList))[0]
        self._projection: Any = model.get_output_embeddings()
        self._cuda = model.device.type == "cuda"
        self._began: Mark = 0.0
        self._passes: list[tuple[Mark, Mark]] = []
        self._handles: list[Any] = []

    @property
    def tokens(self) -> int:
        """Tokens that went through the layers."""
        return sum(sequences * tokens for sequences, tokens in self.rows)

    @property
    def seconds(self) -> float:
        """Time spent in body and projection."""
        if self._cuda:
            torch.cuda.synchronize()
        return sum(_between(began, ended) for began, ended in self._passes)

    def __enter__(self) -> "ForwardMeter":
        """Attach the hooks."""
        self._handles.append(self._layer.register_forward_pre_hook(self._count_read, with_kwargs=True))
        self._handles.append(self._projection.register_forward_pre_hook(self._count_projected))
        for module in (self._body, self._projection):
            self._handles.append(module.register_forward_pre_hook(self._start))
            self._handles.append(module.register_forward_hook(self._stop))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take them off."""
        for handle in self._handles:
            handle.remove()

    def _count_read(self, layer: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        states = args[0] if args else kwargs["hidden_states"]
        self.rows.append((states.shape[0], states.shape[1]))

    def _count_projected(self, projection: torch.nn.Module, args: tuple[Any, ...]) -> None:
        self.projected += args[0].shape[:-1].numel()

    def _start(self, module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        self._began = self._now()

    def _stop(self, module: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
        self._passes.append((self._began, self._now()))

    def _now(self) -> Mark:
        if not self._cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event


def _between(began: Mark, ended: Mark) -> float:
    """Seconds from one mark to the other; events count milliseconds."""
    if isinstance(began, torch.cuda.Event) and isinstance(ended, torch.cuda.Event):
        return began.elapsed_time(ended) / 1000
    return float(ended) - float(began)  # type: ignore[arg-type]
