"""Single passes of the compiler, for tests and for looking at what a pass does; its options."""

from __future__ import annotations

from .pass_config import PassConfigKey
from .pass_context import PassContext
from .passes import Remark, pipeline, remarks_of, run_pass, verify, verify_synchronization
from .simplify import apply_simplify, simplify_prim_func

__all__ = [
    "PassConfigKey",
    "PassContext",
    "Remark",
    "apply_simplify",
    "pipeline",
    "remarks_of",
    "run_pass",
    "simplify_prim_func",
    "verify",
    "verify_synchronization",
]
