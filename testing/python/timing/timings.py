"""Made-up timings, as the engine returns them, whose answers are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tilelang.emulator.timed import REASONS, Timing

#: A source file to refer to; lines that stand for those of its kernel's instructions.
SOURCE = str(Path(__file__).resolve())
LOAD_LINE, MMA_LINE, EX2_LINE = 28, 29, 30
OPCODES = ["ld.global.f32", "ld.shared.v4.f32", "mma.sync", "ex2.approx.f32", "bar.sync"]


def reason(name: str) -> int:
    """The number of a reason."""
    return REASONS.index(name)


def slices(rows: list[tuple[int, int, int, int, str]]) -> dict[str, np.ndarray]:
    """Columns of (track, begin, end, instruction, reason)."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    return {
        "slice_track": np.array(columns[0], np.int32),
        "slice_begin": np.array(columns[1], np.int64),
        "slice_end": np.array(columns[2], np.int64),
        "slice_inst": np.array(columns[3], np.int32),
        "slice_reason": np.array([reason(name) for name in columns[4]], np.uint8),
    }


def path(rows: list[tuple[int, int, int, int, str]]) -> dict[str, np.ndarray]:
    """As ``slices``, for the critical path."""
    return {name.replace("slice", "path"): value for name, value in slices(rows).items()}


def stalls(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The sums of slices of warps."""
    warps = columns["slice_reason"] != reason("busy")
    return {
        "stall_track": columns["slice_track"][warps],
        "stall_reason": columns["slice_reason"][warps],
        "stall_inst": columns["slice_inst"][warps],
        "stall_cycles": (columns["slice_end"] - columns["slice_begin"])[warps],
    }


def engines(**shares: float) -> dict[str, Any]:
    """Shares of engines by name; blanks are underscores."""
    values = np.array(list(shares.values()), np.float64)
    names = [name.replace("_", " ") for name in shares]
    return {"engine_name": names, "engine_share": values, "engine_busy": values * 1000}


def counts(**values: list[int]) -> dict[str, np.ndarray]:
    """Counters of the five instructions, as ``issues=[...]``."""
    known: dict[str, Any] = dict.fromkeys(("wavefronts", "conflicts", "sectors"), [0] * 5)
    known |= {"issues": [10, 20, 5, 50, 2], **values}
    return {f"inst_{name}": np.array(value, np.int64) for name, value in known.items()}


ROWS = [
    (0, 0, 100, 0, "memory"), (0, 100, 400, 2, "tensor pipe"), (0, 400, 1000, 3, "dependency"),
    (1, 0, 500, 4, "named barrier"), (1, 500, 1000, 2, "tensor pipe"),
    (2, 100, 300, 2, "busy"), (2, 250, 400, 2, "busy"), (2, 390, 500, 2, "busy"),
    (3, 0, 100, 0, "busy"),
]  # fmt: skip


def make(**changes: Any) -> Timing:
    """A CTA of two warps with a tensor pipe and HBM, 1000 cycles at 1 GHz."""
    columns = slices(ROWS)
    fields: dict[str, Any] = {
        "arch": "sm_90a", "gpu": "H200", "kernel": "made_up", "sms": 132, "clock_mhz": 1000.0,
        "power_factor": 1.0, "cta_cycles": 1000.0, "wave_cycles": 1000.0, "grid_cycles": 8000.0,
        "launch_us": 0.5, "span_cycles": 1000, "waves": 8.0, "ctas": 1056, "timed_ctas": 1,
        "ctas_per_sm": 1, "occupancy_limit": "threads", "registers": 64, "shared_bytes": 4096,
        "threads": 64, "flops": 1e9, "tensor_flops": 1e9, "dram_bytes": 1e6, "l2_bytes": 2e6,
        "track_kind": ["warp", "warp", "engine", "engine"],
        "track_name": ["CTA 7 warp 0", "CTA 7 warp 1", "tensor pipe", "HBM"],
        "track_cta": np.array([7, 7, -1, -1], np.int32),
        "track_warp": np.array([0, 1, -1, -1], np.int32),
        "track_sm": np.array([3, 3, 3, 3], np.int32),
        "inst_opcode": OPCODES, "inst_file": [SOURCE] * 4 + [""],
        "inst_ptx_line": np.arange(20, 25, dtype=np.int32),
        "inst_line": np.array([LOAD_LINE, LOAD_LINE, MMA_LINE, EX2_LINE, 0], np.int32),
        "inst_free": np.zeros(5, np.bool_),
        "flow_from": np.array([5, 8], np.int32), "flow_to": np.array([1, 0], np.int32),
        **columns, **stalls(columns), **counts(),
        **engines(tensor_pipe=0.4, HBM=0.1),
        **path([(0, 0, 100, 0, "memory"), (0, 100, 400, 2, "tensor pipe"),
                (0, 400, 1000, 3, "dependency")]),
    }  # fmt: skip
    return Timing(**{**fields, **changes})
