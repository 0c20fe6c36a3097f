"""Arguments that are accepted and change nothing. Where one is given, a remark says so."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..ir import span
from .builder import active


class Ignored(NamedTuple):
    """An argument without effect.

    Attributes:
        why: what the compiler does instead.
        silent: the values that ask for nothing else.
    """

    why: str
    silent: tuple[Any, ...] = (None, False)


_NO_GROUPS = "tcgen05.mma has no groups to wait for"
_LAYOUT = "the compiler chooses the layout of the tile, or T.annotate_layout"
_THREADS = "the compiler chooses how threads carry out the loop"

#: Function, argument -> what is remarked. The one place that lists them.
IGNORED: dict[str, dict[str, Ignored]] = {
    "T.Pipelined": {
        "group": Ignored("it joins statements for order= and stage=, which are not given"),
    },
    "T.Persistent": {"group_size": Ignored("the table says the order of the tiles", (8,))},
    "T.Parallel": {"prefer_async": Ignored(_THREADS)},
    "T.serial": {"hints": Ignored("a serial loop has none", ((),))},
    "T.tma_copy": {"leader_scope_threads": Ignored("one thread of those that get there asks")},
    "T.tma_gather4": {"swizzle": Ignored(_LAYOUT)},
    "T.tma_scatter4": {"swizzle": Ignored(_LAYOUT)},
    "T.copy": {"prefer_instruction": Ignored("the compiler chooses the instruction")},
    "T.tcgen05_gemm_blockscaled": {"wg_wait": Ignored(_NO_GROUPS, (0,))},
    "T.tcgen05_gemm": {
        "policy": Ignored(
            "one thread issues tcgen05.mma; warps do not share the result", (None, 0)
        ),
        "wg_wait": Ignored(_NO_GROUPS, (0,)),
    },
    "T.reduce": {
        "batch": Ignored(
            "the compiler decides how many rows go through shared memory at once", (1,)
        )
    },
    "T.finalize_reducer": {
        "batch": Ignored("the compiler decides how much is reduced at once", (1,))
    },
    "T.gemm": {"k_pack": Ignored("no instruction here reads K in packs", (1,))},
    "T.atomic_add": {"use_tma": Ignored("the compiler chooses the instruction")},
    "T.alloc_reducer": {
        "replication": Ignored("contributions go to one tile in shared memory", (None, "none"))
    },
    "T.annotate_layout": {"layout_map": Ignored("each thread has the whole array for itself")},
    "T.annotate_l2_hit_ratio": {
        "l2_hit_ratio_map": Ignored("the L2 cache gets no hints of this kind", ({},))
    },
    "T.attr": {"attr_key": Ignored("no pass of this compiler reads it")},
    "T.func_attr": {"attrs": Ignored("no pass of this compiler reads them", ([],))},
    "T.sblock_attr": {"attrs": Ignored("no pass of this compiler reads them", ([],))},
    "T.annotate_restrict_buffers": {
        "buffers": Ignored("whether tensors share memory is found out at each call", ((),))
    },
    "T.device_assert": {"no_stack_info": Ignored("a failed assertion names its line alone")},
}


def remark_ignored(what: str, **given: Any) -> None:
    """Leaves a remark at this line for each argument of ``what`` that has no effect."""
    builder = active()
    if builder is None:
        return
    for name, value in given.items():
        why, silent = IGNORED[what][name]
        if any(value is known or value == known for known in silent):
            continue
        remarks = builder.attrs.setdefault("ignored_arguments", [])
        remarks.append([span.current(), f"{what}: {name}={value!r} has no effect: {why}"])


def remark_choice(topic: str, text: str) -> None:
    """Leaves a remark at this line: what was chosen, and why."""
    builder = active()
    assert builder is not None
    builder.attrs.setdefault("choices", []).append([span.current(), topic, text])


def remark_by_itself(what: str, why: str, arguments: Any, options: Any) -> None:
    """Leaves a remark at this line: a call asks for what the compiler does anyway."""
    builder = active()
    if builder is None:
        return
    given = ", ".join([*map(str, arguments), *(f"{k}={v}" for k, v in options.items())])
    remarks = builder.attrs.setdefault("ignored_arguments", [])
    remarks.append([span.current(), f"{what}({given}) has no effect: {why}"])
