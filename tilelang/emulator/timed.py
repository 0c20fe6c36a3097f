"""Results of a timed launch: cycles, engines, and the activity of each warp over time."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tilelang import _ffi
from tilelang.emulator.gpus import find
from tilelang.emulator.numbers import integer
from tilelang.errors import UserError

#: Why a warp does not go on, by the numbers of ``slice_reason``; ``"busy"`` is for engines.
REASONS = (
    "issue", "dependency", "mbarrier: TMA", "mbarrier: tensor", "mbarrier: threads",
    "named barrier", "tensor pipe", "memory", "not selected", "pipe", "async group",
    "tensor memory", "branch", "done", "busy",
)  # fmt: skip
_COLUMNS = {
    "slice_track": np.int32, "slice_begin": np.int64, "slice_end": np.int64,
    "slice_inst": np.int32, "slice_reason": np.uint8, "flow_from": np.int32, "flow_to": np.int32,
    "path_track": np.int32, "path_begin": np.int64, "path_end": np.int64, "path_inst": np.int32,
    "path_reason": np.uint8, "stall_track": np.int32, "stall_reason": np.uint8,
    "stall_inst": np.int32, "stall_cycles": np.int64, "inst_issues": np.int64,
    "inst_wavefronts": np.int64, "inst_conflicts": np.int64, "inst_sectors": np.int64,
}  # fmt: skip
_NUMBERS = {
    "track_cta": np.int32, "track_warp": np.int32, "track_sm": np.int32,
    "inst_ptx_line": np.int32, "inst_line": np.int32, "inst_free": np.bool_,
    "engine_busy": np.float64, "engine_share": np.float64,
}  # fmt: skip


#: What ``TimingOptions.ablate`` takes: conflicts of banks, latencies and bandwidths of global
#: memory, the tensor core, special functions, barriers.
ABLATIONS = ("bank conflicts", "memory", "tensor pipe", "MUFU", "barriers")


@dataclass(frozen=True)
class TimingOptions:
    """Options of timing a launch.

    Attributes:
        sampled: only the CTAs that are timed in detail run. The results of the others do not exist;
            those of the timed ones do, unless ``alone``. False: all run, and the results are those
            of every launch.
        alone: only kernels of the same module read what the launch writes; ``profile`` sets it.
            A launch that is ``sampled``, too, leaves products of tensor cores out, and its results
            are arbitrary, where in no kernel of the module a branch, an address or a barrier
            depends on a value of memory.
        l2: ``"cold"``: inputs lie in HBM when the launch begins; ``"warm"``: in L2.
        clock_mhz: clock of the SMs; 0: that of the architecture.
        record: keep what each warp and engine did when; False keeps sums only.
        ctas: most CTAs to time in detail; 0: chosen.
        registers: of a thread, which limit how many CTAs an SM holds; 0: as many as
            ptxas allots if it can be asked (``Kernel.registers``), else an estimate.
        ablate: names of :data:`ABLATIONS`, which cost nothing then: the difference is what they
            cost.
        gpu: which GPU of the architecture, a name of :func:`timed_gpus`; "": the one that a block
            of ``as_cuda`` or ``emulate`` chose, else the usual one.

    Raises:
        UserError: a value is out of range.
    """

    sampled: bool = False
    l2: str = "cold"
    clock_mhz: float = 0.0
    record: bool = True
    ctas: int = 0
    registers: int = 0
    ablate: frozenset[str] = frozenset()
    alone: bool = False
    gpu: str = ""

    def __post_init__(self) -> None:
        if self.l2 not in ("cold", "warm"):
            raise UserError(f"timing: l2 must be 'cold' or 'warm', got {self.l2!r}")
        if not 0 <= self.clock_mhz <= 1e5:
            raise UserError(f"timing: clock_mhz must be 0 to 100000, got {self.clock_mhz!r}")
        integer("timing: ctas", self.ctas, 0, 2**31 - 1)
        integer("timing: registers", self.registers, 0, 255)
        unknown = sorted(set(self.ablate) - set(ABLATIONS))
        if unknown:
            raise UserError(f"timing: ablate knows {', '.join(ABLATIONS)}, not {unknown[0]!r}")

    def settings(self, arch: str) -> tuple[Any, ...]:
        """Returns the options as the library takes them, for a device ``"sm_90a"``.

        Raises:
            UserError: figures of the architecture, or of the GPU, are not known.
        """
        gpus = timed_gpus()
        if arch not in gpus:
            raise UserError(
                f"launches on {arch} cannot be timed: the bandwidth and latency of its L2 and the "
                f"latencies of TMA and of its tensor core are not known; {', '.join(gpus)} can"
            )
        if self.gpu and self.gpu not in gpus[arch]:
            raise UserError(
                f"timing: gpu={self.gpu!r} is no GPU of {arch}; choose from "
                f"{', '.join(map(repr, gpus[arch]))}"
            )
        return (
            self.gpu or find(arch).name, float(self.clock_mhz), int(self.ctas),
            bool(self.sampled), self.l2 == "warm", bool(self.record), int(self.registers),
            sorted(self.ablate), bool(self.alone),
        )  # fmt: skip


def timed_gpus() -> dict[str, list[str]]:
    """Returns the GPUs that launches can be timed for, by architecture, the usual one first."""
    gpus: dict[str, list[str]] = {}
    for arch, name in _ffi.get("emulator.TimedGpus")():
        gpus.setdefault(str(arch), []).append(str(name))
    return gpus


#: Settings of a launch that is not timed.
NOT_TIMED: tuple[Any, ...] = ("", 0.0, 0, False, False, False, 0, [], False)


def timing_options(value: Any) -> TimingOptions | None:
    """Returns the timing options that ``timing`` selects; None for False.

    Raises:
        UserError: it is neither a bool nor :class:`TimingOptions`.
    """
    if isinstance(value, TimingOptions):
        return value
    if isinstance(value, bool):
        return TimingOptions() if value else None
    raise UserError(f"timing must be True, False or TimingOptions, got {value!r}")


@dataclass(frozen=True)
class Timing:
    """The time of a launch, and its causes.

    Times are cycles of the SM clock from the start of the first CTA that is timed in detail.

    Attributes:
        arch, gpu, kernel: ``"sm_90a"``, ``"H200"``, the kernel's name.
        sms: SMs of the GPU.
        clock_mhz: clock of the cycles; ``power_factor`` of it, 0 to 1, is what the power limit
            leaves.
        cta_cycles, wave_cycles, grid_cycles: of a CTA (mean), of the CTAs that are resident at
            once, of the grid.
        launch_us: what a launch costs before and after, in microseconds.
        span_cycles: of what was timed in detail.
        waves: CTAs of the grid, divided by the CTAs that the GPU holds at once.
        ctas, timed_ctas: of the grid; timed in detail.
        ctas_per_sm, occupancy_limit: resident CTAs of an SM, and what allows no more.
        registers, shared_bytes, threads: of a thread (estimated, or the launch bound), of a CTA.
        flops, tensor_flops: floating-point operations of the grid, and of its tensor cores.
        dram_bytes, l2_bytes: bytes of the grid from and to HBM, and through L2.
        track_kind, track_name, track_cta, track_warp, track_sm: the tracks: one for each warp
            (``"warp"``) and engine (``"engine"``).
        inst_opcode, inst_file, inst_line, inst_ptx_line, inst_free, inst_issues, inst_wavefronts,
            inst_conflicts, inst_sectors: the kernel's instructions: source line (0: unknown),
            whether ptxas makes no instruction of it, how often warps issued it, wavefronts of
            shared memory, those by bank conflicts, sectors of 32 bytes of global memory.
        slice_track, slice_begin, slice_end, slice_inst, slice_reason: what happened when;
            reasons are numbers of :data:`REASONS`.
        flow_from, flow_to: slices that released others.
        stall_track, stall_reason, stall_inst, stall_cycles: sums for each warp.
        engine_name, engine_busy, engine_share: cycles of work of an SM's engines, and their share
            of the span.
        path_track, path_begin, path_end, path_inst, path_reason: the critical path.
    """

    arch: str
    gpu: str
    kernel: str
    sms: int
    clock_mhz: float
    power_factor: float
    cta_cycles: float
    wave_cycles: float
    grid_cycles: float
    launch_us: float
    span_cycles: int
    waves: float
    ctas: int
    timed_ctas: int
    ctas_per_sm: int
    occupancy_limit: str
    registers: int
    shared_bytes: int
    threads: int
    flops: float
    tensor_flops: float
    dram_bytes: float
    l2_bytes: float
    track_kind: list[str]
    track_name: list[str]
    track_cta: np.ndarray
    track_warp: np.ndarray
    track_sm: np.ndarray
    inst_opcode: list[str]
    inst_file: list[str]
    inst_ptx_line: np.ndarray
    inst_line: np.ndarray
    inst_free: np.ndarray
    inst_issues: np.ndarray
    inst_wavefronts: np.ndarray
    inst_conflicts: np.ndarray
    inst_sectors: np.ndarray
    slice_track: np.ndarray
    slice_begin: np.ndarray
    slice_end: np.ndarray
    slice_inst: np.ndarray
    slice_reason: np.ndarray
    flow_from: np.ndarray
    flow_to: np.ndarray
    stall_track: np.ndarray
    stall_reason: np.ndarray
    stall_inst: np.ndarray
    stall_cycles: np.ndarray
    engine_name: list[str]
    engine_busy: np.ndarray
    engine_share: np.ndarray
    path_track: np.ndarray
    path_begin: np.ndarray
    path_end: np.ndarray
    path_inst: np.ndarray
    path_reason: np.ndarray

    def microseconds(self, cycles: float) -> float:
        """Returns the time of so many cycles at the clock that the power limit leaves."""
        return cycles / (self.clock_mhz * self.power_factor)

    def __getattr__(self, name: str) -> Any:
        # The library keeps the slices until they are asked for.
        handle = self.__dict__.get("_handle")
        if handle is None or name not in _COLUMNS:
            raise AttributeError(f"Timing has no attribute {name!r}")
        return self.__dict__.setdefault(name, _column(handle, name))

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def cta_us(self) -> float:
        """Microseconds of a CTA."""
        return self.microseconds(self.cta_cycles)

    @property
    def wave_us(self) -> float:
        """Microseconds of a wave."""
        return self.microseconds(self.wave_cycles)

    @property
    def grid_us(self) -> float:
        """Microseconds of the launch, sustained: once the limit of power acts."""
        return self.launch_us + self.microseconds(self.grid_cycles)

    @property
    def fresh_us(self) -> float:
        """Microseconds of the launch, fresh: in the first milliseconds of load, at full clock."""
        return self.launch_us + self.grid_cycles / self.clock_mhz

    @property
    def tflops(self) -> float:
        """10^12 floating-point operations a second."""
        return self.flops / self.grid_us / 1e6

    @property
    def dram_tbs(self) -> float:
        """10^12 bytes a second from and to HBM."""
        return self.dram_bytes / self.grid_us / 1e6

    def __repr__(self) -> str:
        return (
            f"<Timing {self.kernel} on {self.gpu}: {self.grid_us:.2f} us, "
            f"{self.grid_cycles:.0f} cycles>"
        )


def timing_of(handle: Any) -> Timing | None:
    """Returns the timing of a launch; None if it was not timed."""
    text = str(_ffi.get("emulator.TimingReport")(handle))
    if not text:
        return None
    values = json.loads(text)
    assert tuple(values.pop("reasons")) == REASONS
    for name, dtype in _NUMBERS.items():
        values[name] = np.array(values[name], dtype)
    for name in _COLUMNS:
        if not name.startswith("slice_"):
            values[name] = _column(handle, name)
    # The slices of a long launch take longer to convert than all the rest: see __getattr__.
    timing = object.__new__(Timing)
    timing.__dict__.update(values, _handle=handle)
    return timing


def _column(handle: Any, name: str) -> np.ndarray:
    return np.frombuffer(_ffi.get("emulator.TimingColumn")(handle, name), _COLUMNS[name])
