"""Names of the precisions of a model's weights, in profiles, hardware tables and options of commands."""

from typing import Literal

Dtype = Literal["float32", "bfloat16", "float16"]
DtypeOrAuto = Literal["auto", Dtype]
"""`auto` is the precision of the saved weights."""
