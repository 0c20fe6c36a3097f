"""Configurations that nobody gave: from the template of the kernel.

The kernel is traced with its defaults. What it computes tells the template (one gemm: a product;
two in a loop: attention; sums or others over an axis: a reduction; else a sweep over memory), the
extents of its tiles and tensors the sizes, and what changes with a parameter what it stands for
(:mod:`.roles`). The default configuration is a candidate, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from .. import target as targets
from ..carver import (
    ElementwiseTemplate,
    FlashAttentionTemplate,
    GeneralReductionTemplate,
    MatmulTemplate,
    arch,
)
from ..carver.hint import Hint
from ..carver.template import Template
from ..errors import ConfigError
from ..jit.freeze import freeze
from . import few
from .few import Tiling
from .roles import TILES, Roles, Trace
from .traced import NO_SIZES, TYPICAL, TracedKernel

#: How many hints of a template become candidates, unless the timing model needs few.
TOPK = 6
#: More hints than any template has.
_ALL = 1 << 20


class Suggestion(NamedTuple):
    """A configuration, and the seconds that its template estimates; infinite where it has none.

    One that is ``spare`` is tried where none of the others can be used.
    """

    config: dict[str, Any]
    seconds: float
    spare: bool = False


def configurations(
    trace: Trace,
    defaults: Mapping[str, Any],
    given: Mapping[str, Any],
    target: Any,
    function: str,
    sizes: Mapping[str, int] = NO_SIZES,
    *,
    topk: int | None = None,
    by_model: bool = False,
) -> list[Suggestion]:
    """Returns candidates for a kernel, the default one first.

    Args:
        trace: traces a configuration.
        defaults: default values of the function's parameters, by name.
        given: arguments of the call.
        target: that it is compiled for.
        function: its name, for messages.
        sizes: of dimensions that only calls know, by the names of their variables.
        topk: how many there are beside the default; None: as many as suit what ranks them.
        by_model: the timing model ranks them, which takes some tenths of a second for each.

    Raises:
        ConfigError: no parameter is a tile's extent, threads or stages.
    """
    roles = Roles(trace, defaults, given, sizes)
    if not roles.names:
        if given and not any(type(v) is int for n, v in defaults.items() if n not in given):
            return [Suggestion({}, math.inf)]  # the call gives all of them
        raise ConfigError(
            f"autotune without configs= finds no parameter of {function} that it can choose",
            notes=[
                "it looks for whole numbers as defaults that are extents of a tile, num_stages of "
                "a loop or threads of a block, and do not change what is computed",
                "or say what to try: configs=[{'block_M': 64}, {'block_M': 128}]",
            ],
        )
    template, tilings = _tilings(roles, arch.CUDA(targets.resolve(target)))
    spare = False
    if by_model and few.estimate_suffices(roles.kernel):
        spare = topk is None and few.is_slow(roles.kernel, template, tilings)
        tilings, topk = few.few_first(tilings, roles.kernel), topk or few.count(roles.kernel)
    default = dict(roles.defaults)
    tiles = {roles.names[role]: default[roles.names[role]] for role in TILES & roles.names.keys()}
    found = {freeze(default): Suggestion(default, math.inf, spare)}
    seen = set()
    for values, seconds in tilings:
        config = roles.config(values)
        if config is None or freeze(config) in seen:
            continue
        seen.add(freeze(config))
        if not roles.covers(config):  # its threads and stages may be used all the same
            config = {**config, **tiles}
        known = found.get(freeze(config), Suggestion(config, math.inf))
        # Of several hints for one configuration, the first and best.
        found[freeze(config)] = Suggestion(config, min(known.seconds, seconds))
        if len(found) > (topk or TOPK):
            break
    return list(found.values())


def _tilings(roles: Roles, gpu: arch.CUDA) -> tuple[Template | None, list[Tiling]]:
    """The template of the kernel, and what it recommends, best first."""
    kernel = roles.kernel
    if not kernel.launches or not kernel.results:
        return None, []
    template = _template(kernel).with_arch(gpu)
    attends = isinstance(template, FlashAttentionTemplate)
    tilings = [
        Tiling(_values(hint, attends), hint.seconds) for hint in template.recommend_hints(_ALL)
    ]
    # Hints are meant for all of their numbers: those that the program fixes are to be these.
    fixed = {**kernel.tiles(), "threads": kernel.threads}
    fixed = {role: value for role, value in fixed.items() if role not in roles.names}
    for role in ("threads", "m", "n", "k"):
        same = [each for each in tilings if each.values.get(role) == fixed.get(role)]
        if role in fixed and (same or role == "threads"):
            tilings = same
    return template, tilings


def _template(kernel: TracedKernel) -> Template:
    if len(kernel.gemms) == 2:
        return _attention(kernel)
    if kernel.gemms:
        return _product(kernel)
    if kernel.reductions:
        return _reduction(kernel)
    result = kernel.results[-1]
    shape = [kernel.number(each) for each in result.shape]
    return ElementwiseTemplate(shape, str(result.dtype), kernel.transposes)


def _product(kernel: TracedKernel) -> Template:
    """The rows of all products of a batch, or points of all images, are one below the other."""
    gemm, result = kernel.gemms[0], kernel.results[-1]
    shape = [TYPICAL, *(kernel.number(each) for each in result.shape)]
    rows = math.prod(shape[1:-1]) if len(shape) > 2 else TYPICAL
    depth = kernel.depth(gemm) * kernel.steps(gemm)
    a, c = gemm.operands[0].region.buffer, gemm.operands[2].region.buffer
    types = str(a.dtype), str(result.dtype), str(c.dtype)
    return MatmulTemplate(max(rows, 1), max(shape[-1], 1), max(depth, 1), False, False, *types)


def _attention(kernel: TracedKernel) -> Template:
    scores, values = kernel.gemms
    tiles = kernel.tiles()
    dims = kernel.number(values.operands[2].region.extents[-1])
    kind = str(scores.operands[0].region.buffer.dtype)
    length = max(1, tiles["m"]), max(1, tiles["n"] * kernel.steps(scores))
    return FlashAttentionTemplate(1, kernel.blocks(), dims, *length, False, kind, kind)


def _reduction(kernel: TracedKernel) -> Template:
    """Returns the template of the largest tensor, reduced along its last axis if the tile is."""
    source = kernel.reductions[0].src
    tensor = max(kernel.tensors, key=lambda each: math.prod(map(kernel.number, each.shape)))
    shape = [kernel.number(each) for each in tensor.shape]
    rows, columns = math.prod(shape[:-1]), shape[-1]
    along = kernel.reductions[0].dim == len(source.extents) - 1
    return GeneralReductionTemplate("SR" if along else "RS", (rows, columns), str(tensor.dtype))


def _values(hint: Hint, attends: bool) -> dict[str, int]:
    """The numbers of a hint by role."""
    values = {"m": hint.block[-2]} if len(hint.block) > 1 else {}
    if attends:
        values["n"] = hint.rstep[0]
    elif hint.rstep:
        (values["k"],) = hint.rstep
    if not attends:
        values["n" if hint.use_tc or not hint.rstep else "m"] = hint.block[-1]
    if hint.use_tc:
        values["stages"] = hint.pipeline_stage
    return {**values, "threads": hint.threads}
