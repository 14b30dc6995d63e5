"""Settings of the language models of a run, by role.

labeler: {name: Qwen/Qwen3-8B-Base, dtype: bfloat16}                        loaded here
policy:  {name: Qwen/Qwen3-4B-Base, dtype: bfloat16, engine: vllm}          sampled by vLLM in this process
prover:  {name: Qwen/Qwen2-Math-1.5B, engine: endpoint,                     sampled by a server
          endpoint: "http://127.0.0.1:8000/v1", api_key_variable: PROVER_KEY}
"""

from typing import Literal
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, field_validator, model_validator

from cpmi_dagster.contracts.frozen import Frozen
from cpmi_dagster.files.environment import is_variable_name

Dtype = Literal["float32", "bfloat16", "float16"]
DtypeOrAuto = Literal["auto", Dtype]
"""The precision of a model's weights; `auto` is that of the saved ones."""


class LanguageModel(Frozen):
    """A causal language model: local folder, GGUF file, `package:NAME/FILE.gguf`, `miniature:labeler`, or hub id.

    A GGUF file of the hub is `OWNER/REPOSITORY:FILE.gguf`.

    `engine` samples text. The labeler's log-probabilities always come from weights loaded here. Settings that only say
    where a model runs and how an endpoint is reached are in no key.
    """

    model_config = ConfigDict(hide_input_in_errors=True)

    name: str = Field(description="local folder, GGUF file, hub id, or miniature:NAME")
    revision: str | None = Field(default=None, description="hub commit; for an endpoint, any name of its version")
    sha256: str | None = Field(
        default=None, exclude=True, pattern="^[0-9a-f]{64}$", description="what a GGUF file must have; checked if given"
    )
    dtype: DtypeOrAuto = Field(default="auto", description="precision of the weights; auto is that of the saved ones")
    device: str = Field(default="auto", exclude=True, description="auto = CUDA where there is one, else CPU")
    device_map: str | None = Field(
        default=None,
        exclude=True,
        description="accelerate's device_map, e.g. auto, balanced: a model larger than one GPU",
    )
    engine: Literal["transformers", "vllm", "endpoint"] = Field(
        default="transformers", description="who samples text: transformers or vLLM here, or a server"
    )
    endpoint: str | None = Field(
        default=None, description="base URL of an OpenAI-compatible server, e.g. http://127.0.0.1:8000/v1"
    )
    served_name: str | None = Field(default=None, description="the endpoint's name of the model, if not `name`")
    api_key_variable: str | None = Field(
        default=None, exclude=True, description="environment variable that holds the endpoint's key"
    )
    timeout_seconds: float = Field(default=600, gt=0, exclude=True, description="longest wait for one reply")
    requests_in_flight: int = Field(default=256, ge=1, exclude=True, description="most requests sent at once")
    gpu_memory_share: float = Field(default=0.9, gt=0, le=1, exclude=True, description="of the GPU's, for vllm to take")
    max_retries: int = Field(default=10, ge=0, exclude=True, description="of a request that failed; 10 take a minute")

    @property
    def over_all_gpus(self) -> str | None:
        """The setting that spreads this model over all GPUs; None if it uses one."""
        if self.device_map:
            return f"device_map: {self.device_map}"
        return "engine: vllm" if self.engine == "vllm" else None

    @model_validator(mode="after")
    def _endpoint_fits_engine(self) -> "LanguageModel":
        if (self.engine == "endpoint") != (self.endpoint is not None):
            raise ValueError("`engine: endpoint` and `endpoint`, the server's base URL, go together; give both or none")
        return self

    @model_validator(mode="after")
    def _only_files_have_a_sum(self) -> "LanguageModel":
        if self.sha256 and not self.name.endswith(".gguf"):
            raise ValueError("`sha256` is of a GGUF file; give a hub id's commit as `revision`, or remove it")
        return self

    @field_validator("endpoint")
    @classmethod
    def _base_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise ValueError("an endpoint is a URL such as http://127.0.0.1:8000/v1")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError(
                "an endpoint must not contain a user, key or query; name the key's variable in `api_key_variable`"
            )
        if parts.path.rstrip("/").endswith("/completions"):
            raise ValueError("an endpoint is the base URL; leave `/completions` out")
        return value.rstrip("/")

    @field_validator("api_key_variable")
    @classmethod
    def _variable_name(cls, value: str | None) -> str | None:
        if value is not None and not is_variable_name(value):
            raise ValueError("give the name of an environment variable, such as OPENAI_API_KEY, not the key itself")
        return value


class Models(Frozen):
    """Models by role; one that nothing needs may be left out."""

    labeler: LanguageModel = Field(description="its log-probabilities are CPMI's; it also samples hard negatives")
    rollouts: LanguageModel | None = Field(
        default=None, description="completes the prefixes of MC and PAV; null is the labeler (section 5.3)"
    )
    policy: LanguageModel | None = Field(
        default=None, description="samples the candidates of best-of-N, and trajectories of questions alone"
    )
    prover: LanguageModel | None = Field(default=None, description="PAV's second model")
    backbone: LanguageModel = Field(description="what reward models are trained from")

    def role_of(self, role: str) -> str:
        """The role whose model is used: `labeler` for `rollouts` if no model is named for them."""
        return "labeler" if role == "rollouts" and self.rollouts is None else role

    def of(self, role: str) -> LanguageModel | None:
        """The model of a role."""
        return getattr(self, self.role_of(role))
