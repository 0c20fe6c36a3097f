"""Configurations that nobody gave: from the template of the kernel, by the names of its parameters.

The kernel is traced with its defaults. What it computes tells the template (one gemm: a product;
two in a loop: attention; none: a sweep over memory), the extents of its tiles and tensors the
sizes, and the names of its parameters which of them stand for what. The default configuration is a
candidate, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from .. import nodes
from .. import target as targets
from .._ffi import tvm_ffi
from ..carver import ElementwiseTemplate, FlashAttentionTemplate, MatmulTemplate, arch
from ..carver.hint import Hint
from ..errors import ConfigError, UnsupportedError
from ..ir.evaluate import evaluate, variables
from ..ir.stmt import ir_function
from ..jit.freeze import freeze

#: What a parameter stands for, by its name.
_NAMES = {
    "m": r"(block|tile|blk)_?m|b_?m|m_?(block|tile)",
    "n": r"(block|tile|blk)_?n|b_?n|n_?(block|tile)",
    "k": r"(block|tile|blk)_?k|b_?k|k_?(block|tile)",
    "stages": r"(num_?|n_?)?stages?|pipeline_stages?",
    "threads": r"(num_?|n_?)?threads?|threads?_num",
    "block": r"block(_?size)?|tile(_?size)?",
}
#: Sizes that only the call knows are ranked as this one.
_TYPICAL = 4096
#: How many hints of a template become candidates.
TOPK = 6
_NO_SIZES: Mapping[str, int] = MappingProxyType({})


class Suggestion(NamedTuple):
    """A configuration, and the seconds that its template estimates; infinite where it has none."""

    config: dict[str, Any]
    seconds: float


class Roles(NamedTuple):
    """The parameters of a function by what they stand for; those that a call leaves open."""

    names: dict[str, str]
    defaults: dict[str, Any]

    def config(self, values: Mapping[str, int]) -> dict[str, Any]:
        """The values of the parameters that exist."""
        return {self.names[role]: v for role, v in values.items() if role in self.names}


def roles_of(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> Roles:
    """Returns what the parameters with whole numbers as defaults stand for."""
    found: dict[str, str] = {}
    for name, default in defaults.items():
        if name in given or type(default) is not int:
            continue
        for role, pattern in _NAMES.items():
            if re.fullmatch(pattern, name, re.IGNORECASE):
                found.setdefault(role, name)
    return Roles(found, {name: defaults[name] for name in found.values()})


def configurations(
    func: Any, target: Any, roles: Roles, function: str, sizes: Mapping[str, int] = _NO_SIZES
) -> list[Suggestion]:
    """Returns candidates for a kernel, the default one first.

    Args:
        func: what tracing with the defaults gives.
        target: that it is compiled for.
        roles: the parameters.
        function: its name, for messages.
        sizes: of dimensions that only calls know, by the names of their variables.

    Raises:
        ConfigError: no parameter is one that is known, or the kernel is of no known kind.
    """
    if not roles.names:
        raise ConfigError(
            f"autotune without configs= finds no parameter of {function} that it knows",
            notes=[
                "it knows block_M, block_N, block_K, num_stages, threads and block by their names "
                "(BM, tile_m, stages, num_threads, ...), with whole numbers as defaults",
                "or say what to try: configs=[{'block_M': 64}, {'block_M': 128}]",
            ],
        )
    kernel = _Kernel(ir_function(func), sizes)
    gpu = arch.CUDA(targets.resolve(target))
    default = dict(roles.defaults)
    found = {freeze(default): Suggestion(default, math.inf)}
    for values, seconds in kernel.candidates(gpu, roles):
        config = {**roles.defaults, **roles.config(values)}
        known = found.get(freeze(config), Suggestion(config, math.inf))
        # Of several hints for one configuration, the first and best.
        found[freeze(config)] = Suggestion(known.config, min(known.seconds, seconds))
    return list(found.values())[: TOPK + 1]


class _Kernel:
    """What a traced function computes."""

    def __init__(self, func: Any, sizes: Mapping[str, int]) -> None:
        self._sizes = sizes
        self.gemms: list[Any] = []
        self._loops: list[Any] = []
        self._launches: list[Any] = []
        self._results: list[Any] = []

        def visit(node: Any) -> None:
            if isinstance(node, nodes.Gemm):
                self.gemms.append(node)
            elif isinstance(node, nodes.For):
                self._loops.append(node)
            elif isinstance(node, nodes.KernelLaunch):
                self._launches.append(node)
            elif isinstance(node, nodes.Copy) and str(node.dst.buffer.scope) == "global":
                self._results.append(node.dst.buffer)
            elif isinstance(node, nodes.Store) and str(node.buffer.scope) == "global":
                self._results.append(node.buffer)

        tvm_ffi.structural_walk(func, visit)

    def candidates(self, gpu: arch.CUDA, roles: Roles) -> list[tuple[dict[str, int], float]]:
        """Values by role, and the seconds that they are estimated to take."""
        if not self._launches or not self._results:
            return []
        if self.gemms:
            attends = len(self.gemms) == 2
            hints = self._attention(gpu) if attends else self._product(gpu)
            hints = [hint for hint in hints if self._fits(hint, roles)]
            values = _of_attention if attends else _of_product
            return [(values(hint), hint.seconds) for hint in hints]
        template = ElementwiseTemplate(self._result(), str(self._results[0].dtype))
        hints = template.with_arch(gpu).recommend_hints(TOPK)
        return [
            ({"block": hint.block[-1], "threads": hint.threads}, hint.seconds) for hint in hints
        ]

    def _fits(self, hint: Hint, roles: Roles) -> bool:
        """Where the number of threads is the program's, hints for that many are meant."""
        threads = 1
        for extent in self._launches[0].threads:
            threads *= self._number(extent)
        return "threads" in roles.names or hint.threads == threads

    def _product(self, gpu: arch.CUDA) -> list[Hint]:
        gemm = self.gemms[0]
        rows, columns = ([_TYPICAL, *self._result()][-2:]) if self._results else (_TYPICAL,) * 2
        a = gemm.operands[0]
        depth = self._number(a.region.extents[-2 if a.transposed else -1]) * self._steps(gemm)
        types = str(a.region.buffer.dtype), str(self._results[-1].dtype)
        template = MatmulTemplate(rows, columns, depth, False, False, *types)
        return template.with_arch(gpu).recommend_hints(4 * TOPK)

    def _attention(self, gpu: arch.CUDA) -> list[Hint]:
        scores, values = self.gemms
        queries, keys = (self._number(extent) for extent in scores.operands[2].region.extents[-2:])
        dims = self._number(values.operands[2].region.extents[-1])
        blocks = 1
        for extent in self._launches[0].grid:
            blocks *= self._number(extent)
        kind = str(scores.operands[0].region.buffer.dtype)
        template = FlashAttentionTemplate(
            1, blocks, dims, max(1, queries), keys * self._steps(scores), False, kind, kind
        )
        return template.with_arch(gpu).recommend_hints(4 * TOPK)

    def _steps(self, gemm: Any) -> int:
        """Iterations of the innermost loop around a gemm."""
        for loop in self._loops:  # inner ones first
            inside: list[Any] = []
            tvm_ffi.structural_walk(loop.body, inside.append)
            if any(isinstance(node, nodes.Gemm) and node.same_as(gemm) for node in inside):
                return max(1, self._number(loop.extent))
        return 1

    def _result(self) -> list[int]:
        return [self._number(extent) for extent in self._results[-1].shape]

    def _number(self, expr: Any) -> int:
        """A constant; what only the call knows counts as a typical size of its class."""
        value = getattr(expr, "value", expr)
        if type(value) is int:
            return value
        known = {each: self._sizes.get(str(each.name), _TYPICAL) for each in variables(expr)}
        try:
            return int(evaluate(expr, known))
        except (KeyError, UnsupportedError):
            return _TYPICAL


def _of_product(hint: Hint) -> dict[str, int]:
    (m, n), (k,) = hint.block, hint.rstep
    return {"m": m, "n": n, "k": k, "stages": hint.pipeline_stage, "threads": hint.threads}


def _of_attention(hint: Hint) -> dict[str, int]:
    rows, keys = hint.block[0], hint.rstep[0]
    return {"m": rows, "n": keys, "stages": hint.pipeline_stage, "threads": hint.threads}
