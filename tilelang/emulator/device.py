"""Device, Module and Kernel: load PTX and launch it."""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilelang import _ffi
from tilelang.emulator import sample, watch
from tilelang.emulator.arguments import Binder, Param
from tilelang.emulator.errors import EmulatorError, EmulatorWarning, error_of
from tilelang.emulator.extents import Extents
from tilelang.emulator.inline_assembly import as_one_statement
from tilelang.emulator.launch_options import Options, current, remark_unused
from tilelang.emulator.memory import DeviceMemory, Mapping
from tilelang.emulator.named_fragments import with_fragment
from tilelang.emulator.named_tiles import NamedTile, compiled_tiles, fragments_of, static_tiles
from tilelang.emulator.numbers import integer
from tilelang.emulator.profiles import Profile, chosen_profile, profile_of
from tilelang.emulator.progress import Progress
from tilelang.emulator.shown import show, split
from tilelang.emulator.tensor_map import SWIZZLE_NAMES, TensorMap, encode_tiled, make_tensor_map
from tilelang.emulator.timed import NOT_TIMED, Timing, TimingOptions, timing_of, timing_options
from tilelang.emulator.warned import line_by_line
from tilelang.errors import UserError, user_level
from tilelang.runtime import nvrtc, resources, toolchain
from tilelang.runtime.occupancy import registers_decide
from tilelang.target import resolve

if TYPE_CHECKING:
    from tilelang.emulator.timing import Report
    from tilelang.runtime.resources import ResourceUsage

_SCHEDULES = {"late": 0, "eager": 1}
_RANDOM_SCHEDULE = 2


@dataclass(frozen=True)
class InstructionCount:
    """Counts of executed instructions by class.

    Attributes:
        instructions: by warps, or by the parts of a warp that have diverged.
        lane_instructions: by lanes; lanes whose guard is false do not count.
    """

    instructions: int
    lane_instructions: int


@dataclass(frozen=True)
class LaunchReport:
    """The report of a launch.

    Attributes:
        instructions: executed warp instructions.
        lane_instructions: the same, each counted once per lane whose guard is true.
        by_class: both for each class of instructions that was executed: ``"integer"``,
            ``"float"``, ``"conversion"``, ``"move"``, ``"warp"`` (shuffles, votes),
            ``"global memory"``, ``"shared memory"``, ``"local memory"``, ``"constant memory"``
            (with parameters), ``"generic memory"``, ``"asynchronous copy"``, ``"tensor memory"``,
            ``"tensor core"``, ``"barrier"`` (with mbarriers and fences), ``"control"``.
        seconds: time on the host.
        output: what the kernel printed.
        findings: with ``sanitize="report"`` what the checks of ordering found, one
            :class:`~tilelang.emulator.errors.EmulatorError` for each kind and PTX line.
        letters: findings that the PTX ISA forbids and known GPUs keep in order, unless
            ``letters="fail"`` counts them among the others.
        warnings: one dictionary for each kind and PTX line, with ``kind``, ``message``, ``count``
            and the fields of ``EmulatorError``.
        timing: with ``timing=True`` what the launch takes on the GPU; else None.
        producer: name of the :class:`~tilelang.emulator.Profile` by which it ran.
        waived: what is not reported because the producer relies on it: how often by kind.
    """

    instructions: int
    lane_instructions: int
    seconds: float
    by_class: dict[str, InstructionCount] = field(default_factory=dict)
    output: str = ""
    warnings: list[dict[str, Any]] = field(default_factory=list)
    findings: list[EmulatorError] = field(default_factory=list)
    timing: Timing | None = None
    producer: str = "strict"
    waived: dict[str, int] = field(default_factory=dict)
    letters: list[EmulatorError] = field(default_factory=list)

    @property
    def profile(self) -> Report | None:
        """A report to print of a launch with ``timing=True``; else None."""
        from .timing import Report

        return Report(self.timing) if self.timing is not None else None


class Stream:
    """Launches that follow each other, of kernels of one or more devices."""

    def __init__(self) -> None:
        self._handle = _ffi.get("emulator.Stream")()

    @property
    def may_overlap(self) -> bool:
        """Returns whether a ``programmatic`` launch may begin before the last one has ended."""
        return bool(_ffi.get("emulator.MayOverlap")(self._handle))


class Device:
    """An emulated GPU.

    Args:
        arch: ``"sm_80"``, ``"sm_90a"``, ``"sm_100a"``, ``"sm_103a"`` (B300), ``"sm_120a"`` (RTX 50)
            or ``"sm_121a"`` (DGX Spark).

    Raises:
        UserError: no such architecture.
    """

    def __init__(self, arch: str = "sm_100a") -> None:
        known = list(_ffi.get("emulator.Architectures")())
        if arch not in known:
            raise UserError(f"no architecture {arch!r}; the emulator knows {', '.join(known)}")
        self.arch = arch
        self._handle = _ffi.get("emulator.Device")()
        self.memory = DeviceMemory(self._handle)
        #: What its launches follow each other in, by default.
        self.stream = Stream()

    def load_ptx(self, text: str | bytes) -> Module:
        """Parses and decodes PTX, a text (bytes: in UTF-8) that may end with zeros as in C.

        Raises:
            UserError: it is no text, or has no kernel.
            ~tilelang.emulator.errors.EmulatorError: ``kind`` is ``"syntax"``,
                ``"illegal-operand"``, ``"target"`` (the device does not run modules for this
                ``.target``, or the ``.target`` lacks an instruction) or, outside of kernels,
                ``"unsupported"``; the message names instruction and line.
        """
        return Module(self, as_one_statement(_source(text)))

    def load_cuda(
        self,
        source: str | Path,
        *,
        headers: dict[str, str] | None = None,
        options: Iterable[str] = (),
    ) -> Module:
        """Compiles CUDA C++ with NVRTC, in this process, and loads the PTX.

        ``cuda_fp16.h`` and the like, and ``cooperative_groups.h``, are there; ``cuda/std``, ``cub``
        and ``thrust`` with the wheel ``nvidia-cuda-cccl`` (``pip install 'tilelang-sm100[cccl]'``).
        Headers of the host such as ``cstdint``, ``stdio.h`` and ``cuda.h`` (for ``CUtensorMap``)
        have substitutes, and ``__int128`` is known.
        Source lines of reports are lines of the file.

        Args:
            source: the text, or the path of a ``.cu`` file, beside which includes are found, too.
            headers: further headers by the names that ``#include`` has.
            options: of NVRTC, as ``-DNAME=1`` or ``-I<folder>``.

        Raises:
            CompileError: the source does not compile, or lacks a header; the message says which
                wheel or argument brings it.
            ConfigError: NVRTC does not know one of the options.
            ~tilelang.emulator.errors.EmulatorError: as of :meth:`load_ptx`.
        """
        given, flags = nvrtc.Source(str(source), headers=dict(headers or {})), tuple(options)
        if isinstance(source, Path):
            text = source.read_text(encoding="utf-8")
            given = dataclasses.replace(given, text=text, name=str(source))
            flags += (f"-I{source.parent}",)
        artifact = nvrtc.compile_foreign(given, self.arch, flags)
        module = self.load_ptx(artifact.ptx)
        module.assembly_log = lambda: artifact.log
        return module

    def map(self, array: Any, *, address: int | None = None, name: str = "array") -> Mapping:
        """Gives ``array``, used in place, a device address for as long as the result lives.

        Arguments that are arrays need no mapping. It is for addresses inside of structures, and
        for programs that expect memory at an address of their own.

        Args:
            array: NumPy array or CPU torch tensor.
            address: that of its first element, from 2**36 to 2**49 (below lie the windows of the
                other state spaces); the buffer must not cross a multiple of 2**36 nor another
                one. None: where there is room. Memory around a view keeps its distance.
            name: for error messages.

        Raises:
            UserError: it is no array in host memory, or cannot lie at ``address``.
        """
        return self.memory.map(array, name, address)

    def tensor_map(self, array: Any, **fields: Any) -> TensorMap:
        """Encodes a tensor map of ``array``; see :func:`tensor_map.make_tensor_map`."""
        self._check_swizzle(fields.get("swizzle"))
        return make_tensor_map(self.memory, array, **fields)

    def encode_tiled(self, **fields: Any) -> TensorMap:
        """Encodes a tensor map from the fields of ``cuTensorMapEncodeTiled``; see
        :func:`tensor_map.encode_tiled`."""
        tensor_map = encode_tiled(self.memory, **fields)
        self._check_swizzle(SWIZZLE_NAMES[fields.get("swizzle", 0)])
        return tensor_map

    def _check_swizzle(self, swizzle: str | None) -> None:
        if "_atom" in str(swizzle) and self.arch in ("sm_80", "sm_90a"):
            raise UserError(
                f"illegal tensor map: swizzle={swizzle!r} needs sm_100a or later; the driver "
                f"refuses it for {self.arch}"
            )

    def __repr__(self) -> str:
        return f"Device({self.arch!r})"


class Module:
    """PTX loaded on a device; ``module["name"]`` is a kernel, by its name in the PTX or, where one
    has it, in C++.

    A kernel that uses an instruction which is not implemented, also through the functions it
    calls, is listed in ``kernels``; taking or launching it raises
    :class:`~tilelang.emulator.errors.EmulatorError` with the ``kind`` ``"unsupported"`` that names
    all of them. ``unsupported`` has the uses of all kernels.
    """

    def __init__(self, device: Device, text: str, places: dict[str, int] | None = None) -> None:
        """Loads a text; ``places`` has addresses that global variables shall have, by name."""
        self.device = device
        self.text = text
        self._handle = _ffi.get("emulator.Load")(device._handle, device.arch, text, places or {})
        report = json.loads(str(_ffi.get("emulator.ModuleReport")(self._handle)))
        if "error" in report:
            raise error_of(report["error"])
        if not report["kernels"]:
            raise UserError("the PTX text has no kernel: no `.entry` with a body")
        self.target: str = report["target"]
        #: What the compiler that emitted the text is known to rely on.
        self.profile = profile_of(text)
        #: Kernels by name.
        self.kernels: dict[str, Kernel] = {
            entry["name"]: Kernel(self, entry) for entry in report["kernels"]
        }
        #: What is not implemented, by its name: how often the kernels use it.
        self.unsupported: dict[str, int] = _unsupported(report["kernels"])
        #: Emulated addresses of global variables by name.
        self.globals: dict[str, int] = report["globals"]
        #: Returns what ``ptxas -v`` says of the kernels; "" where there is none that takes the PTX.
        self.assembly_log: Callable[[], str] = functools.partial(
            toolchain.verbose_assembly, text, device.arch
        )

    @cached_property
    def resources(self) -> dict[str, ResourceUsage]:
        """Returns the resources by kernel, from ptxas; empty if no ptxas takes the PTX."""
        return resources.parse(self.assembly_log())

    def __getitem__(self, name: str) -> Kernel:
        kernel = self.kernels.get(name) or self._by_plain_name(name)
        if kernel is None:
            raise UserError(f"no kernel {name!r}; the module has {', '.join(self.kernels)}")
        if kernel.error is not None:
            raise error_of(kernel.error)
        return kernel

    def _by_plain_name(self, name: str) -> Kernel | None:
        """Returns the only kernel whose C++ name, with its arguments, contains ``name``."""
        found = [each for each in self.kernels if f"{len(name)}{name}" in each]
        return self.kernels[found[0]] if len(found) == 1 else None

    def __iter__(self) -> Iterator[str]:
        return iter(self.kernels)


class Kernel:
    """An entry function.

    Attributes:
        name: its name.
        params: name, PTX type, offset, size and alignment of each parameter.
        reqntid, maxntid, cluster: the values of ``.reqntid``, ``.maxntid`` and
            ``.reqnctapercluster``; empty if absent.
        minnctapersm, maxnreg: the values of these directives; 0 if absent.
        static_shared: bytes of statically declared shared memory.
        dynamic_shared: whether it declares dynamic shared memory.
        local_bytes: local memory of a thread.
        instructions: number of decoded instructions.
        communicates: whether its CTAs may exchange values through global memory.
    """

    def __init__(self, module: Module, entry: dict[str, Any]) -> None:
        self.module = module
        self.name: str = entry["name"]
        self.params = [
            Param(p["name"], p["type"], p["offset"], p["size"], p["align"], bool(p["array"]))
            for p in entry["params"]
        ]
        self.param_bytes: int = entry["param_bytes"]
        self.reqntid = tuple(entry["reqntid"])
        self.maxntid = tuple(entry["maxntid"])
        self.cluster = tuple(entry["cluster"])
        self.minnctapersm: int = entry["minnctapersm"]
        self.maxnreg: int = entry["maxnreg"]
        self.static_shared: int = entry["static_shared"]
        self.dynamic_shared = bool(entry["dynamic_shared"])
        self.local_bytes: int = entry["local_bytes"]
        self.instructions: int = entry["instructions"]
        self.communicates = bool(entry["communicates"])
        #: What is known to lie in its shared memory, for reports.
        self.tiles = static_tiles(entry)
        #: Its tiles in registers, for reports.
        self.fragments: list[NamedTile] = []
        self._dynamic_begin: int = entry["shared_offset"]
        #: Why the kernel cannot be launched: what it uses is not implemented. Else None.
        self.error: dict[str, Any] | None = entry.get("error")

    @cached_property
    def memory_decides(self) -> bool:
        """Returns whether a branch, an address or a barrier may depend on a value of memory."""
        return bool(_ffi.get("emulator.MemoryDecides")(self.module._handle, self.name))

    def name_tiles(self, tiles: Iterable[Any]) -> None:
        """Names the tiles in dynamic shared memory and in registers (``tl.NamedTile``)."""
        named = tuple(tiles)
        self.tiles += compiled_tiles(named, self._dynamic_begin)
        self.fragments += fragments_of(named)

    def __repr__(self) -> str:
        params = ", ".join(f".{p.type} {p.name}" for p in self.params)
        return f"Kernel {self.name}({params})"

    def launch(
        self,
        grid: int | Iterable[int],
        block: int | Iterable[int],
        args: Iterable[Any],
        *,
        cluster: int | Iterable[int] | None = None,
        preferred_cluster: int | Iterable[int] | None = None,
        smem: int = 0,
        programmatic: bool = False,
        stream: Stream | None = None,
        **options: Any,
    ) -> LaunchReport:
        """Runs the kernel to its end.

        Args:
            grid, block, cluster: one to three extents, x first, in CTAs, threads and CTAs;
                ``cluster`` defaults to the kernel's own attribute, else one CTA.
            preferred_cluster: a multiple of ``cluster``, for a part of the clusters: all that lie
                inside of the grid under the schedule ``"late"``, none under ``"eager"``, and some
                by a seed. Kernels read the size of theirs from ``%cluster_nctaid``.
            args: one value for each parameter: NumPy arrays or CPU torch tensors (used in place),
                ``Pointer(array, offset)``, tensor maps, numbers, or ``bytes`` for aggregates.
            smem: dynamic shared memory in bytes.
            programmatic: programmatic stream serialization: the launch may begin before the one
                before it in its stream has ended, if that executes ``launch_dependents``. What
                conflicts with it before ``griddepcontrol.wait`` is a race.
            stream: what it follows; None: the device's own.
            options: ``schedule``, ``lint``, ``instruction_limit``, ``threads``, ``sanitize``,
                ``profile``, ``suppress``, ``timing``, ``progress``, ``blocks`` and ``rest`` as in
                :class:`~tilelang.emulator.Options`; those not given are what
                :func:`~tilelang.emulator.options` set.

        Raises:
            ~tilelang.emulator.errors.EmulatorError: the program did something wrong.
            UserError: the configuration or an argument does not fit the kernel.
            TypeError: there is no such option.
        """
        chosen = current(**options)
        stream = stream or self.module.device.stream
        smem = integer("smem", smem, 0)
        dims = Extents(self, grid, block, cluster, preferred_cluster, smem)
        binder = Binder(self.module.device.memory, self.params, self.param_bytes)
        try:
            params = binder.pack(args)
            if programmatic and not stream.may_overlap:
                _warn_no_overlap(self.name)
            packed = watch.Packed(dims, smem, params, programmatic, stream)
            report = self.launch_packed(packed, {**options, "suppress": chosen.suppress})
        finally:
            binder.release()
        if "suppress" in options:
            remark_unused(chosen.suppress, 2)
        return report

    def launch_packed(self, packed: watch.Packed, given: dict[str, Any]) -> LaunchReport:
        """Runs a launch whose arguments lie in emulated memory already; ``given``: its options."""
        dims, smem, params, programmatic, stream = packed
        return watch.execute(
            self, packed,
            lambda changes: self._execute(
                dims, smem, params, current(**changes), stream, programmatic
            ),
            given,
        )  # fmt: skip

    def _execute(
        self, dims: Extents, smem: int, params: bytes, chosen: Options, stream: Stream,
        programmatic: bool,
    ) -> LaunchReport:  # fmt: skip
        if dims.preferred is not None:
            return self._execute_parts(dims, smem, params, chosen, stream, programmatic)
        count = chosen.sample_size
        selected = None
        if count and not chosen.timing:  # the model of time takes samples of its own
            selected = sample.sampled(dims.grid, dims.cluster, count)
        if selected is not None and self.communicates:
            sample.warn_communicates(self.name)
            selected = None
        report = self._run(dims, smem, params, chosen, selected or [], stream, programmatic)
        if selected is None:
            return report
        sample.warn(self.name, dims.grid, dims.cluster, selected, chosen.rest)
        if chosen.rest == "skip":
            return report
        unchecked = dataclasses.replace(chosen, sanitize=False)
        rest = sample.others(dims.grid, dims.cluster, selected)
        return sample.joined(report, self._run(dims, smem, params, unchecked, rest, stream))

    def _execute_parts(
        self, dims: Extents, smem: int, params: bytes, chosen: Options, stream: Stream,
        programmatic: bool,
    ) -> LaunchReport:  # fmt: skip
        if chosen.timing or programmatic:
            raise UserError("preferred_cluster goes with neither timing nor programmatic=True")
        reports = [
            self._run(part, smem, params, chosen, numbers, stream)
            for part, numbers in dims.parts(chosen.schedule, self.communicates)
        ]
        return functools.reduce(sample.joined, reports)

    def _run(
        self,
        dims: Extents,
        smem: int,
        params: bytes,
        chosen: Options,
        selected: list[int],
        stream: Stream,
        programmatic: bool = False,
    ) -> LaunchReport:
        mode, seed = _schedule(chosen.schedule)
        timed = self._timed(chosen.timing, dims, smem)
        profile = chosen_profile(chosen.profile, self.module.profile)
        handle = _ffi.get("emulator.Launch")(
            self.module._handle, stream._handle, self.name, dims.flat,
            [smem, int(dims.explicit_cluster), mode, seed, chosen.instruction_limit,
             chosen.threads, int(bool(chosen.sanitize)), int(chosen.keeps_going),
             int(programmatic)],
            list(chosen.lint), chosen.collected,
            [*(entry.fields() for entry in chosen.suppress), *profile.fields()],
            timed.settings(self.module.device.arch) if timed else NOT_TIMED, params,
            _ffi.tvm_ffi.Shape(tuple(selected)), chosen.algebra,
        )  # fmt: skip
        Progress(handle, self.name, chosen.progress).wait()
        return _finish(self, handle, chosen, profile)

    @cached_property
    def registers(self) -> int:
        """Registers of a thread that ptxas allots; 0 where there is no ptxas that takes the PTX.

        A compiled kernel has them from the assembly of its code.
        """
        usage = self.module.resources.get(self.name)
        return usage.registers if usage else 0

    def _timed(self, timing: Any, dims: Extents, smem: int) -> TimingOptions | None:
        options = timing_options(timing)
        if options is None or options.registers:
            return options
        # ptxas takes longer than many launches; a report that shows registers is of a recorded one.
        target = resolve(self.module.device.arch)
        if not options.record and not registers_decide(target, dims.block, smem):
            return options
        return dataclasses.replace(options, registers=self.registers)

    def profile(
        self,
        grid: int | Iterable[int],
        block: int | Iterable[int],
        args: Iterable[Any],
        *,
        timing: TimingOptions | None = None,
        **options: Any,
    ) -> Report:
        """Times a launch by the model of the device's GPU, and reports.

        Args:
            grid, block, args, options: as of :meth:`launch`. What the kernel writes is
                arbitrary afterwards: only the CTAs that are timed in detail run, and even they
                leave out products of tensor cores where in no kernel of the module a branch, an
                address or a barrier depends on a value of memory. ``timing=TimingOptions()``
                computes all.
            timing: how; see :class:`tilelang.emulator.TimingOptions`.

        Raises:
            As :meth:`launch`.
        """
        from .timing import profile_call

        values = list(args)

        def call(how: TimingOptions) -> list[Timing | None]:
            return [self.launch(grid, block, values, timing=how, **options).timing]

        return profile_call(call, timing)


def _warn_no_overlap(name: str) -> None:
    warnings.warn(
        f"programmatic=True has no effect on {name}: the launch before it in its stream has not "
        "executed griddepcontrol.launch_dependents with the sanitizer, so that grid has ended",
        EmulatorWarning,
        stacklevel=user_level(),
    )


def _unsupported(entries: list[dict[str, Any]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for use in (use for entry in entries for use in entry["unsupported"]):
        counts[use["what"]] = counts.get(use["what"], 0) + use["count"]
    return counts


def _source(text: Any) -> str:
    if isinstance(text, bytes | bytearray | memoryview):
        try:
            text = bytes(text).decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"this is no PTX text but binary data: {error}") from None
    if not isinstance(text, str):
        raise UserError(f"PTX must be a text, got {type(text).__name__}")
    text = text.rstrip("\0")
    if "\0" in text:
        raise UserError(f"this is no PTX text: zero at character {text.index(chr(0))}")
    return text


def _schedule(schedule: str | int) -> tuple[int, int]:
    if isinstance(schedule, int):
        return _RANDOM_SCHEDULE, schedule
    return _SCHEDULES[schedule], 0


def _finish(kernel: Kernel, handle: Any, chosen: Options, profile: Profile) -> LaunchReport:
    report = json.loads(str(_ffi.get("emulator.LaunchReport")(handle)))
    findings, letters = split(report, kernel.fragments, chosen)
    show(kernel.name, findings, letters, chosen)
    output = report["output"].encode("latin-1").decode("utf-8", "replace")
    if output:
        sys.stdout.write(output)
    if "error" in report:
        error = error_of(with_fragment(report["error"], kernel.fragments))
        if isinstance(error, EmulatorError):
            error.findings, error.letters = findings, letters
        raise error
    for text in line_by_line(report["warnings"], kernel.tiles):
        warnings.warn(text, EmulatorWarning, stacklevel=user_level())
    by_class = {name: InstructionCount(**count) for name, count in report["by_class"].items()}
    lane_instructions = sum(count.lane_instructions for count in by_class.values())
    return LaunchReport(
        report["instructions"], lane_instructions, report["seconds"], by_class, output,
        report["warnings"], findings, timing_of(handle), profile.name,
        profile.waived(report["suppressed"]), letters,
    )  # fmt: skip
