"""A museum of public ordering bugs: small kernels with the same defect, each wrong and fixed.

``kernels/<name>.cu`` tells the story of each in its first lines; ``FIXED`` selects the repair.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tilelang.emulator import Device
from tilelang.runtime import nvrtc

_FOLDER = Path(__file__).parent
KERNELS = _FOLDER / "kernels"
Array = np.ndarray


@dataclass(frozen=True)
class Exhibit:
    """A kernel, and what the emulator says of its wrong version.

    Attributes:
        kind: of the finding.
        target: the architecture.
        threads, grid: of the launch.
        outputs: elements that it writes.
        expected: the result of the fixed version, of 1024 inputs.
    """

    kind: str
    target: str
    threads: int
    outputs: int
    expected: Callable[[Array], Array]
    grid: int = 1


def _same(x: Array) -> Array:
    return x[:128]


def _warps(x: Array) -> Array:
    return x[:128].reshape(4, 32)


def _rounds(count: int, step: int = 0) -> Callable[[Array], Array]:
    """The first 128 inputs, with ``step`` more each round."""
    return lambda x: np.concatenate([x[:128] + step * i for i in range(count)])


def _reversed_rounds(count: int) -> Callable[[Array], Array]:
    return lambda x: np.concatenate([x[:128][::-1] + i for i in range(count)])


EXHIBITS = {
    "published_address": Exhibit("race", "sm_100a", 128, 128, _same),
    "unfenced_barrier": Exhibit("missing-mbarrier-fence", "sm_90a", 128, 128, _same),
    "early_dealloc": Exhibit("missing-wait", "sm_100a", 128, 128, _same),
    "teardown": Exhibit("tmem", "sm_100a", 256, 128, _same),
    "release_by_one": Exhibit("race", "sm_90a", 256, 512, _reversed_rounds(4)),
    "release_before_wait": Exhibit("missing-wait", "sm_100a", 256, 256, _rounds(2, 1)),
    "cluster_exit": Exhibit(
        "missing-wait", "sm_90a", 128, 256, lambda x: np.concatenate([x[128:256], x[:128]]), 2
    ),
    "leader_waits_alone": Exhibit("race", "sm_90a", 128, 384, _rounds(3, 1)),
    "store_without_fence": Exhibit(
        "missing-proxy-fence", "sm_90a", 128, 128, lambda x: x[:128] * 3
    ),
    "operand_without_fence": Exhibit(
        "missing-proxy-fence", "sm_100a", 128, 128, lambda x: np.ones(128, np.uint32)
    ),
    "no_barrier_at_back_edge": Exhibit("race", "sm_80", 128, 384, _reversed_rounds(3)),
    "multicast_too_early": Exhibit("race", "sm_90a", 128, 256, _rounds(2), 2),
    "aliased_columns": Exhibit("missing-wait", "sm_100a", 256, 128, _same),
    "broadcast_reused": Exhibit(
        "race", "sm_80", 128, 128, lambda x: (x[:128] * x[:128].sum(dtype=np.uint32))[::-1]
    ),
    "phase_overwritten": Exhibit("race", "sm_90a", 128, 128, _same),
    "operand_overwritten": Exhibit("race", "sm_100a", 128, 128, lambda x: np.ones(128, np.uint32)),
    "roles_disagree": Exhibit(
        "deadlock", "sm_90a", 64, 128, lambda x: np.concatenate([x[:32] + i for i in range(4)])
    ),
    "unwaited_copy": Exhibit(
        "missing-wait",
        "sm_80",
        128,
        1024,
        lambda x: np.concatenate([x[:512][::-1], x[512:][::-1]]),
    ),
    "dependent_grid": Exhibit("race", "sm_90a", 128, 128, lambda x: (x[:128] + 1) * 2),
    "remote_before_init": Exhibit("mbarrier", "sm_90a", 128, 256, lambda x: x[:256], 2),
    "arrive_before_init": Exhibit("race", "sm_90a", 128, 128, lambda x: x[127::-1]),
    "lanes_in_step": Exhibit("race", "sm_80", 128, 128, lambda x: _warps(x)[:, ::-1].ravel()),
    "own_value_rewritten": Exhibit("race", "sm_80", 128, 128, lambda x: x[:128:32].repeat(32)),
    "semaphore_without_fence": Exhibit(
        "race",
        "sm_80",
        128,
        129,
        lambda x: np.append(x[:384].reshape(3, 128).sum(0, dtype=np.uint32), np.uint32(3)),
        3,
    ),
    "store_not_read_yet": Exhibit("missing-wait", "sm_90a", 128, 384, _rounds(3, 1)),
    "one_writes_all_read": Exhibit(
        "race", "sm_80", 128, 128, lambda x: x[:128] * x[:128].sum(dtype=np.uint32)
    ),
    "cleared_while_added": Exhibit("race", "sm_80", 128, 128, lambda x: x[127::-1]),
    "local_arrive_on_remote": Exhibit("mbarrier", "sm_90a", 128, 256, lambda x: x[:256], 2),
    "pointer_of_a_lane": Exhibit(
        "race", "sm_80", 128, 128, lambda x: _warps(x)[[1, 0, 3, 2]].ravel()
    ),
    "counters_reset": Exhibit(
        "race",
        "sm_80",
        128,
        256,
        lambda x: np.uint32(128) + np.repeat([0, x[0]], 128).astype(np.uint32),
    ),
}


def run(name: str, fixed: bool, **options: object) -> tuple[Array, Array]:
    """Runs one version of an exhibit; returns what it wrote and what is right."""
    return run_file(KERNELS / f"{name}.cu", EXHIBITS[name], fixed, **options)


def run_file(path: Path, exhibit: Exhibit, fixed: bool, **options: object) -> tuple[Array, Array]:
    """Runs one version of the kernel in a file; returns what it wrote and what is right."""
    prelude = (_FOLDER / "prelude.cuh").read_text()
    kernel, name = path.read_text(), path.stem
    source = f'{prelude}\n#line 1 "{name}.cu"\n{kernel}'
    flags = ("-DFIXED",) if fixed else ()
    ptx = nvrtc.compile_cuda(source, exhibit.target, flags, machine_code=False).ptx
    inputs = np.random.default_rng(0).integers(1, 1 << 20, 1024).astype(np.uint32)
    out = np.zeros(exhibit.outputs, np.uint32)
    kernels, given = Device(exhibit.target).load_ptx(ptx), inputs
    if "before" in kernels.kernels:  # the exhibit may start before this kernel has ended
        given = np.zeros(128, np.uint32)
        kernels["before"].launch(1, exhibit.threads, [given, inputs], **options)
        options["programmatic"] = True
    kernels["k"].launch(exhibit.grid, exhibit.threads, [out, given], **options)
    return out, exhibit.expected(inputs)
