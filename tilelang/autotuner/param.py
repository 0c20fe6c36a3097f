"""The arguments of a search by the name of the module that programs import them from."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..jit.kernel import JITKernel
from .result import AutotuneResult
from .search import compile_candidate
from .settings import ProfileArgs


@dataclasses.dataclass(frozen=True)
class CompileArgs:
    """Options of :func:`tilelang.compile` for all candidates of a search."""

    out_idx: Any = None
    execution_backend: str = "auto"
    target: Any = "auto"
    target_host: Any = None
    verbose: bool = False
    pass_configs: dict[Any, Any] | None = None
    compile_flags: Any = None

    def options(self) -> dict[str, Any]:
        """Returns the options by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def compile_program(self, program: Any) -> JITKernel:
        """Compiles one candidate, a ``T.prim_func``."""
        return compile_candidate(program, self.options())


__all__ = ["AutotuneResult", "CompileArgs", "ProfileArgs"]
