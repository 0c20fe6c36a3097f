"""Defines the result of compilation: a kernel to call, inspect, profile and export."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _ffi
from ..display import Remarks, kernel_html
from ..emulator.unwritten import OUTPUTS
from ..errors import ArgumentError, ConfigError, boundary
from ..ir.buffer import Buffer
from ..ir.stmt import ir_function
from ..layout.tmem_proof import TmemExplanation, explain_tile
from ..runtime import disassembly, poison, resources
from ..runtime import outputs as results
from ..runtime.arguments import (
    check_signs,
    check_storage,
    explain,
    may_be_negated,
    may_be_shrunk,
    plain_scalars,
)
from ..runtime.code import Code
from ..runtime.occupancy import registers_decide
from ..runtime.placement import placeholder
from ..schedule import Schedule
from ..schedule.description import from_core as describe_schedule
from ..target import Target
from . import torch_op
from .autograd import warn_of_lost_gradient
from .emulation import Emulation, Outcome
from .lower import LoweredKernel, lower, lower_overlapping
from .registers import remarks_on_spills

if TYPE_CHECKING:
    from ..autotuner import AutotuneResult
    from ..emulator import LaunchReport, TimingOptions
    from ..emulator.timing import Report
    from ..profiler import Profiler, TensorSupplyType

_listeners: list[Callable[[JITKernel], None]] = []


@contextlib.contextmanager
def compiling(listener: Callable[[JITKernel], None]) -> Iterator[None]:
    """Tells ``listener`` of every kernel that the block compiles, or reads from the cache."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


class JITKernel:
    """A compiled kernel.

    Calling it with the tensors and scalars of its parameters, in order and without the outputs
    that ``out_idx`` names, launches it: CUDA tensors on their GPU, on the caller's current stream,
    without waiting for the result; CPU tensors on the emulator. Tensors may come from torch, NumPy
    or anything else that speaks DLPack; they are not copied. A kernel without tensor inputs runs on
    the current GPU of torch if that can run the code, else on the emulator.

    Tensors may overlap, as in ``kernel(x, x)``: where one of them is written, a variant of the
    code runs in which all tensors may lie in the same memory. It is compiled at the first such
    call, with the grid and the tiles of the program: a block reads what it has written before, and
    nothing loads ahead of a store. The result is right where no block reads what another one
    writes, as in an elementwise kernel whose input and output are one tensor.

    A kernel can be pickled, and is compiled anew (or read from the cache) where it is loaded; a
    copy of it is the kernel itself.

    Attributes:
        prim_func: the function that was compiled.
        name: its name.
        target: the architecture it was compiled for.
        out_idx: indices of the parameters that are allocated and returned, or None.
        params: the parameters in order: buffers (name, dtype, shape) and scalar variables.
        artifact: PTX and machine code; without a GPU the latter is made when it is asked for.
        tuner_result: what ``tilelang.autotuner`` found, if it chose this kernel, else None.
        remarks: what the compiler did, or did not do, and why (:class:`tilelang.transform.Remark`).
    """

    def __init__(
        self,
        prim_func: Any,
        lowered: LoweredKernel,
        target: Target,
        out_idx: Sequence[int] | int | None = None,
        options: tuple[str, ...] = (),
    ) -> None:
        _require_current_torch()
        self.prim_func = prim_func
        self.target = target
        self.spec = lowered.spec
        self.name = str(lowered.spec.name)
        self._is_new = True  # it has not been called
        self.params = list(lowered.spec.params)
        self.out_idx = normalize_out_idx(out_idx, len(self.params))
        self.remarks = Remarks(lowered.remarks)
        self._source = lowered.source
        self._launches = lowered.schedule
        self._outcome = Outcome()
        self._op: Any = None
        self.tuner_result: AutotuneResult | None = None
        self._recipe = prim_func, target, out_idx, lowered.configs, options
        build = functools.partial(
            _build,
            target=target,
            outputs=self.out_idx or [],
            options=options,
            outcome=self._outcome,
        )
        self.artifact, self._emulation, self._launch = build(
            lowered,
            make_variant=lambda: build(
                lower_overlapping(prim_func, lowered, target), make_variant=None
            )[2],
        )
        if self.artifact.assembled:
            spilled = remarks_on_spills(self.resource_usage, getattr(prim_func, "span", None))
            self.remarks = Remarks([*self.remarks, *spilled])
        for listener in _listeners:
            listener(self)

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Launches the kernel; returns None, the output, or the list of outputs.

        Raises:
            ArgumentError: an argument does not fit its parameter.
            TargetError: the tensors are on a GPU that cannot run the code.
            ~tilelang.errors.EmulatorError: the emulator found a fault of the kernel.
            DriverError: the driver refused the launch.
        """
        if kwargs:
            args = self._positional(args, kwargs)
        if torch_op.is_compiling():
            return torch_op.listed(torch_op.call(self.own_op(), args))
        return self.run(*args)

    def run(self, *args: Any) -> Any:
        """Calls the kernel from code of this package that torch.compile does not trace."""
        if self._is_new:
            self._is_new = False
            warn_of_lost_gradient(self.name, args)
        if self._scalars:
            args = tuple(plain_scalars(args, self._scalars))
        if self._tensorless and len(args) == len(self._inputs):
            args = (*args, placeholder(self.target, args))
        if self._strided or may_be_negated(args, self._signed):
            check_signs(args, self._passed)
        if may_be_shrunk(args, self._tensors):
            check_storage(args, self._passed)
        try:
            result = self._launch(*args)
        except Exception as error:
            poison.ended(self.name, failed=True)
            found = self._outcome.take_error() or explain(error, self._passed, args)
            OUTPUTS.adopt([])
            raise found from None
        poison.ended(self.name)
        if result is None:
            return None
        given = results.to_user(result, args)
        OUTPUTS.adopt(given)
        return given

    def as_torch_op(self, name: str) -> Any:
        """Registers the kernel as a custom operator of torch, with a fake kernel.

        Args:
            name: ``"namespace::name"``, new in this process.

        Returns:
            The operator: a callable with the kernel's inputs as arguments; also
            ``torch.ops.namespace.name``. It returns one tensor, a tuple of several, or None.

        Raises:
            ConfigError: ``name`` has no namespace.
        """
        return torch_op.kernel_op(self, name)

    def as_jax(self) -> Callable[..., Any]:
        """Returns the kernel as a function of JAX, also for ``jax.jit``: a foreign function.

        On the CPU it runs on the emulator. It takes arrays, contiguous, and returns new ones: the
        parameters of ``out_idx``, one array or a list. ``jax.custom_vjp`` adds a gradient.

        Raises:
            ConfigError: the extra ``jax`` is not installed, the kernel has no ``out_idx``, or takes
                scalars.
        """
        from .jax_call import jax_function

        return jax_function(self)

    def launcher_without_outputs(self) -> Any:
        """Returns the kernel as a function of tvm-ffi that takes all parameters, outputs too."""
        _, target, _, configs, options = self._recipe
        build = functools.partial(
            _build, target=target, outputs=[], options=options, outcome=self._outcome
        )
        lowered = lower(self.prim_func, target, configs)
        return build(
            lowered,
            make_variant=lambda: build(
                lower_overlapping(self.prim_func, lowered, target), make_variant=None
            )[2],
        )[2]

    def own_op(self) -> str:
        """Returns the name of the operator that torch.compile traces for the kernel."""
        if self._op is None:
            name = torch_op.fresh_name(self.name)
            self._op = torch_op.kernel_op(self, f"tilelang::{name}"), name
        return self._op[1]

    # torch.compile calls it while it traces, instead of looking into it.
    own_op._dynamo_marked_constant = True  # type: ignore[attr-defined]

    def _positional(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        names = self._passed
        rest = names[len(args) :]
        unknown = [name for name in kwargs if name not in rest]
        missing = [name for name in rest if name not in kwargs]
        if unknown or missing:
            problem = f"no parameter {unknown[0]!r}" if unknown else f"{missing[0]!r} is missing"
            raise ArgumentError(f"kernel {self.name!r} takes ({', '.join(names)}): {problem}")
        return (*args, *(kwargs[name] for name in rest))

    @cached_property
    def _inputs(self) -> list[Any]:
        """The parameters that a call passes."""
        outputs = self.out_idx or []
        return [param for i, param in enumerate(self.params) if i not in outputs]

    @cached_property
    def _passed(self) -> list[str]:
        return [str(param.name) for param in self._inputs]

    @cached_property
    def _scalars(self) -> list[int]:
        """Positions in a call of arguments by value; a pointer may be given as a tensor."""
        return [
            i
            for i, param in enumerate(self._inputs)
            if not isinstance(param, Buffer) and param.dtype != "handle"
        ]

    @cached_property
    def _signed(self) -> list[int]:
        """Positions of tensors whose values torch may keep negated: parts of complex numbers."""
        kinds = ("float16", "float32", "float64")
        return [
            i
            for i, param in enumerate(self._inputs)
            if isinstance(param, Buffer) and param.dtype in kinds
        ]

    @cached_property
    def _tensors(self) -> list[int]:
        """Positions of the tensors in a call."""
        return [i for i, param in enumerate(self._inputs) if isinstance(param, Buffer)]

    @cached_property
    def _tensorless(self) -> bool:
        """Whether a call passes no tensor, so that another argument must tell the device."""
        return not self._tensors

    @cached_property
    def _strided(self) -> bool:
        """Whether a parameter takes views that torch, in inference mode, does not know as such."""
        return any(self._inputs[i].strides for i in self._signed)

    def __reduce__(self) -> tuple[Any, ...]:
        return _compile_again, self._recipe

    def __copy__(self) -> JITKernel:
        return self  # it never changes

    def __deepcopy__(self, memo: dict[int, Any]) -> JITKernel:
        return self

    @property
    def adapter(self) -> JITKernel:
        """Returns the kernel: it launches itself. Upstream TileLang has an adapter for that."""
        return self

    @functools.cached_property
    def kernels(self) -> dict[str, Any]:
        """The functions of the GPU by name, each with its grid, block and arguments.

        The values are of the type ``tl.runtime.LaunchSpec``.
        """
        return {str(launch.kernel_name): launch for launch in self.spec.launches}

    @property
    def last_launch(self) -> LaunchReport | None:
        """The emulator's report of the last successful launch of this kernel, else None.

        Instructions by class, seconds, warnings, printed text; of the last grid if the kernel
        consists of several.
        """
        return self._outcome.report

    def reporting(self, listener: Callable[[LaunchReport], None]) -> AbstractContextManager[None]:
        """Hands the report of every grid that this thread emulates in the block to ``listener``."""
        return self._outcome.reporting(listener)

    def get_tuner_result(self) -> AutotuneResult:
        """Returns the result of the search of ``tilelang.autotuner`` that chose this kernel.

        Raises:
            ConfigError: the kernel was not chosen by a search.
        """
        if self.tuner_result is None:
            raise ConfigError(f"kernel {self.name!r} was not chosen by tilelang.autotune")
        return self.tuner_result

    @property
    def latency(self) -> float:
        """The time that the search for this kernel has measured; see ``get_tuner_result``."""
        return self.get_tuner_result().latency

    @property
    def config(self) -> dict[str, Any]:
        """The configuration that a search chose; see ``get_tuner_result``."""
        return self.get_tuner_result().config

    @property
    def ref_latency(self) -> float | None:
        """Milliseconds of the search's reference program; see ``get_tuner_result``."""
        return self.get_tuner_result().ref_latency

    def get_kernel_source(self, kernel_only: bool = True) -> str:
        """Returns the generated CUDA C++."""
        return self._source

    def get_host_source(self) -> str:
        """Returns a description of the launch as text, because there is no generated host code."""
        return str(self.spec)

    def get_ptx(self) -> str:
        """Returns the PTX text."""
        return self.artifact.ptx

    @boundary
    def get_sass(self) -> str:
        """Returns the machine code as text; needs the wheel ``nvidia-cuda-nvdisasm``."""
        return disassembly.disassemble(self.artifact.cubin)

    @cached_property
    def resource_usage(self) -> dict[str, resources.ResourceUsage]:
        """The resources of an SM that each ``__global__`` function uses, by name."""
        return resources.parse(self.artifact.log)

    @property
    def n_regs(self) -> int:
        """Registers of a thread; the largest number if there are several grids."""
        return max(usage.registers for usage in self.resource_usage.values())

    @property
    def n_spills(self) -> int:
        """Bytes that a thread spills by stores and loads, over all grids."""
        usages = self.resource_usage.values()
        return sum(usage.spill_stores + usage.spill_loads for usage in usages)

    def schedule(self) -> Schedule:
        """Returns the schedule of each loop: roles, channels, and the order of steps.

        ``print`` it for a table; ``svg()`` is a picture.
        """
        return describe_schedule(self.name, str(self.target), self._launches, self.remarks)

    @boundary
    def explain(self, tile: str | Buffer) -> TmemExplanation:
        """Returns what the kernel does with a tile in tensor memory, element by element.

        Registers of ``tcgen05.st`` and ``.ld``, cells of the tile and the operand of
        ``tcgen05.mma`` stand side by side: ``print`` it for a table; ``svg()`` is a picture, which
        notebooks show.

        Args:
            tile: the tile, or its name in the program.

        Raises:
            ArgumentError: the kernel has no such tile in tensor memory; the error lists its tiles.
        """
        name = tile if isinstance(tile, str) else str(tile.name)
        func, target, _, configs, _ = self._recipe
        uses = _ffi.get("compiler.TensorMemoryUses")(ir_function(func), target, dict(configs))
        return explain_tile(self.name, name, uses)

    @boundary
    def profile(self, *args: Any, timing: TimingOptions | None = None) -> Report:
        """Times the kernel by the emulator's model of the target's GPU; needs no GPU.

        Args:
            args: as of a call, on the CPU; without any they are made as ``get_profiler`` makes
                them. What the kernel writes is arbitrary afterwards: only the CTAs that are timed
                in detail run, and even they leave out products of tensor cores where in no grid of
                the kernel a branch, an address or a barrier depends on a value of memory.
                ``timing=TimingOptions()`` computes all.
            timing: how; see :class:`tilelang.emulator.TimingOptions`.

        Returns:
            A report to print; of the grid that takes longest, if the kernel consists of several.

        Raises:
            ArgumentError: an argument does not fit its parameter.
            ~tilelang.errors.EmulatorError: the emulator found a fault of the kernel.
        """
        from ..emulator.timing import profile_kernel

        return profile_kernel(
            self, args or self.get_profiler().get_inputs("cpu", repeats=True), timing
        )

    def get_profiler(self, tensor_supply_type: TensorSupplyType | None = None) -> Profiler:
        """Returns a profiler that makes arguments, measures and compares; needs torch."""
        from ..profiler import Profiler, TensorSupplyType

        return Profiler(self, tensor_supply_type or TensorSupplyType.Auto)

    def run_once(self, func: Callable[..., Any] | None = None) -> Any:
        """Calls the kernel, or ``func``, with arguments that the profiler makes."""
        return self.get_profiler().run_once(func)

    def show_source(self) -> None:
        """Prints the generated CUDA C++."""
        sys.stdout.write(self._source + "\n")

    def show_ptx(self) -> None:
        """Prints the PTX."""
        sys.stdout.write(self.get_ptx() + "\n")

    def show_sass(self) -> None:
        """Prints the machine code."""
        sys.stdout.write(self.get_sass() + "\n")

    def export_sources(self, kernel_path: str | os.PathLike[str]) -> None:
        """Writes the generated CUDA C++ to a file."""
        Path(kernel_path).write_text(self._source)

    @boundary
    def export_library(self, path: str | os.PathLike[str]) -> None:
        """Writes a shared library that launches the kernel on a GPU, without the compiler.

        It is a module of tvm-ffi with one function, of the kernel's name, that takes all parameters
        (outputs, too) and needs nothing but tvm-ffi and the CUDA driver: ``tvm_ffi.load_module``
        in Python, ``tvm::ffi::Module::LoadFromFile`` in C++. Needs a C++ compiler (``CXX``, g++).

        Raises:
            ConfigError: there is no compiler, or the kernel needs what libraries do not have:
                memory that is zero between calls, tensors with strides of their own, dimensions
                that follow from no single extent.
        """
        from . import library

        library.export(self, Path(path))

    @boundary
    def export_host_source(self, path: str | os.PathLike[str]) -> None:
        """Writes the C++ of the library of :meth:`export_library`, machine code included."""
        from . import library

        Path(path).write_text(library.source_of(self))

    def export_ptx(self, path: str | os.PathLike[str]) -> None:
        """Writes the PTX to a file."""
        Path(path).write_text(self.get_ptx())

    def export_sass(self, path: str | os.PathLike[str]) -> None:
        """Writes the machine code as text to a file."""
        Path(path).write_text(self.get_sass())

    def export_cubin(self, path: str | os.PathLike[str]) -> None:
        """Writes the machine code as an ELF image, which ``cuModuleLoad`` takes."""
        Path(path).write_bytes(self.artifact.cubin)

    def _repr_html_(self) -> str:
        return kernel_html(self)

    def __repr__(self) -> str:
        return f"<tilelang kernel {self.name!r} for {self.target}>"


def _build(
    lowered: LoweredKernel,
    *,
    target: Target,
    outputs: list[int],
    options: tuple[str, ...],
    outcome: Outcome,
    make_variant: Callable[[], Any] | None,
) -> tuple[Code, Emulation, Any]:
    """Returns the code, its emulation, and its launcher.

    Args:
        lowered, target, outputs, options: of the kernel.
        outcome: is told how launches on the emulator end.
        make_variant: returns the launcher for overlapping tensors; None if this is that one.
    """
    every_option = (*lowered.options, *options)
    code = Code(
        lowered.lined_source,
        str(target),
        every_option,
        assemble=bool(options),
        registers_decide=any(
            registers_decide(target, each.block, each.shared_memory)
            for each in lowered.spec.launches
        ),
        made=lowered.artifact,
    )
    emulation = Emulation(str(target), code, outcome, lowered.tiles)
    cubin = code.cubin if code.assembled else b""  # not launched where there is no GPU
    make = _ffi.get("runtime.MakeLauncher")
    return code, emulation, make(lowered.spec, outputs, cubin, target, emulation, make_variant)


def _compile_again(
    prim_func: Any, target: Target, out_idx: Any, configs: Mapping[str, Any], options: Any
) -> JITKernel:
    return JITKernel(prim_func, lower(prim_func, target, configs), target, out_idx, options)


def _require_current_torch() -> None:
    """Refuses a torch whose tensors do not tell their stream: launches could go to another one."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    if tensor is not None and not hasattr(tensor, "__dlpack_c_exchange_api__"):
        raise ConfigError(
            f"torch {sys.modules['torch'].__version__} is too old", notes=["use torch >= 2.10"]
        )


def normalize_out_idx(out_idx: Sequence[int] | int | None, count: int) -> list[int] | None:
    """Returns output indices as non-negative numbers; None stays None.

    Raises:
        ConfigError: an index is out of range, appears twice, or is no integer.
    """
    if out_idx is None:
        return None
    given = [out_idx] if isinstance(out_idx, int) else list(out_idx)
    for index in given:
        whole = isinstance(index, int) and not isinstance(index, bool)
        if not whole or not -count <= index < count:
            raise ConfigError(f"out_idx {index!r} is not the index of one of {count} parameters")
    indices = [index % count for index in given]
    if len(set(indices)) != len(indices):
        raise ConfigError(f"out_idx {given} names a parameter twice")
    return indices
