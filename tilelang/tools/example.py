"""The frame of the scripts in ``examples/``: command line, check, speed beside torch.

A script makes one :class:`Example`, compiles its kernels by it, runs them on inputs and poisoned
outputs that it makes, and checks what they have written::

    example = Example(__doc__, rows=Option("rows of X", 100, 32768))
    kernel = example.compile(scale(example.args.rows))
    x, y = example.normal(example.args.rows), example.output(example.args.rows)
    kernel(x, y)
    example.check("Y", y, 2 * x.double())
    example.speed(lambda: kernel(x, y), lambda: 2 * x, moved=2 * x.nbytes)
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

import tilelang

from ..profiler import do_bench
from ..target import device_target

#: Seconds of work after which the clock of a GPU no longer changes much.
_WARM_UP = 0.5


class Option(NamedTuple):
    """An option of the command line.

    Attributes:
        help: what it means.
        small: its value on the emulator by default; its type is that of the option.
        large: its value on a GPU by default; None for the same.
        choices: the values that there are; None for all.
        least: the least integer, or integer of a list.
        multiple: what integers are multiples of.
        most: the largest integer; None for any.
    """

    help: str
    small: Any
    large: Any = None
    choices: Sequence[Any] | None = None
    least: int = 1
    multiple: int = 1
    most: int | None = None

    def bounds(self) -> str:
        """Returns what ``multiple`` and ``most`` say, for ``--help``."""
        multiple = f", a multiple of {self.multiple}" if self.multiple > 1 else ""
        return multiple + (f", at most {self.most}" if self.most is not None else "")

    def fault(self, value: Any) -> str | None:
        """Returns what is wrong with a value, and what to give; None where nothing is wrong."""
        has = "has" if isinstance(value, (list, tuple)) else "is"
        for number in _integers(value):
            if number < self.least:
                return f"{has} {number}: give at least {self.least}"
            if self.most is not None and number > self.most:
                return f"{has} {number}: give at most {self.most}"
            if number % self.multiple:
                return f"{has} {number}: give a multiple of {self.multiple}"
        return None


class Case(NamedTuple):
    """A line of a table.

    Attributes:
        run: launches the kernels.
        peers: the same by others, by name.
        moved: bytes of global memory that must be read and written.
        flops: floating-point operations that must be done.
    """

    run: Callable[[], Any]
    peers: Mapping[str, Callable[[], Any]]
    moved: int = 0
    flops: int = 0

    def rates(self, milliseconds: float) -> list[str]:
        """Returns the known rates per second."""
        bytes_and_operations = (self.moved, ".2f", "TB/s"), (self.flops, ".0f", "TFLOP/s")
        return [f"{x / milliseconds / 1e9:{f}} {unit}" for x, f, unit in bytes_and_operations if x]

    def times(self) -> tuple[float, dict[str, float]]:
        """Milliseconds of the kernels, and those of each peer that takes the shape, on a GPU."""
        own, found = _median(self.run), {}
        for name, peer in self.peers.items():
            try:
                found[name] = _median(peer)
            except (RuntimeError, ValueError) as error:  # as of a backend of torch
                print(f"{name}: {str(error).splitlines()[0]}")
        return own, found


class Example:
    """A script that shows a kernel.

    Attributes:
        args: the command line: the script's options, ``target`` ("sm_90a"), ``device`` ("cpu" or
            "cuda"), ``seed``, and what to print.
    """

    def __init__(
        self,
        description: str | None,
        targets: Any = ("sm_80", "sm_90a", "sm_100a"),
        **options: Option,
    ) -> None:
        """Reads the command line.

        Args:
            description: of the script; its first lines are printed by ``--help``.
            targets: (names) for which the kernels can be compiled; "sm_100a" stands for "sm_103a",
                too, and the last one is the default.
            options: by name; an option of type bool is a flag.
        """
        self._parser = parser = argparse.ArgumentParser(
            description=description, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        for name, option in options.items():
            _add(parser, name, option)
        gpu = str(device_target() or "")
        offered = [*targets, *["sm_103a"] * ("sm_100a" in targets)]
        parser.add_argument(
            "--target",
            choices=offered,
            default=gpu if gpu in offered else targets[-1],
            help="architecture to compile for; by default that of the GPU, else %(default)s",
        )
        parser.add_argument(
            "--device",
            choices=("cpu", "cuda"),
            help="cpu: the emulator; by default cuda where there is a GPU of the target",
        )
        parser.add_argument("--seed", type=int, default=0, help="of the random inputs")
        parser.add_argument("--source", action="store_true", help="print the CUDA C++")
        parser.add_argument("--schedule", action="store_true", help="print what runs beside what")
        parser.add_argument("--pictures", type=Path, help="folder for pictures of the results")
        self.args = parser.parse_args()
        self.args.device = self.args.device or ("cuda" if self.args.target == gpu else "cpu")
        for name, option in options.items():
            if getattr(self.args, name) is None:
                on_gpu = self.args.device == "cuda" and option.large is not None
                setattr(self.args, name, option.large if on_gpu else option.small)
            fault = option.fault(getattr(self.args, name))
            self.require(fault is None, f"--{name} {fault}")
        there = self.args.device == "cpu" or torch.cuda.is_available()
        self.require(there, "--device is cuda, but torch finds no GPU: give cpu, the emulator")
        self.require(
            self.args.device == "cpu" or self.args.target == gpu,
            f"--device is cuda, but this GPU is {gpu or 'of no known target'} and the kernel is for"
            f" {self.args.target}: give cpu, the emulator",
        )
        torch.manual_seed(self.args.seed)

    def require(self, holds: bool, otherwise: str) -> None:
        """Ends the script where a condition between options does not hold.

        Args:
            holds: whether it does.
            otherwise: what is printed: the option, what is wrong with it, and what to give.
        """
        if not holds:
            self._parser.error(otherwise)

    def compile(self, function: Any, **options: Any) -> Any:
        """Returns the kernel of a prim_func; ``options`` are those of ``tilelang.compile``.

        Without a target among them it is that of the command line.
        """
        kernel = tilelang.compile(function, **{"target": self.args.target, **options})
        if self.args.source:
            print(kernel.get_kernel_source())
        if self.args.schedule:
            print(kernel.schedule())
        return kernel

    def normal(self, *shape: int, dtype: str = "float32", scale: float = 1.0) -> torch.Tensor:
        """Returns normal random numbers, the same on every device."""
        return (torch.randn(*shape) * scale).to(getattr(torch, dtype)).to(self.args.device)

    def integers(self, low: int, high: int, *shape: int, dtype: str = "int32") -> torch.Tensor:
        """Returns random integers of ``low`` up to, not including, ``high``."""
        return torch.randint(low, high, shape, dtype=getattr(torch, dtype)).to(self.args.device)

    def output(self, *shape: int, dtype: str = "float32") -> torch.Tensor:
        """Returns a tensor for a result: NaN, or the least integer, where nothing is written."""
        element = getattr(torch, dtype)
        poison = float("nan") if element.is_floating_point else torch.iinfo(element).min
        return torch.full(shape, poison, dtype=element, device=self.args.device)

    def check(
        self, name: str, got: torch.Tensor, want: torch.Tensor, tolerance: float = 1e-5
    ) -> None:
        """Compares a result with ``want``, in float64.

        Args:
            name: of the result.
            got, want: what the kernel has written, and what it should have.
            tolerance: the largest error allowed beside that of rounding to the type of the result,
                relative to the largest element of ``want``.

        Raises:
            AssertionError: the error of an element is larger, or it is not a number.
        """
        assert got.shape == want.shape, f"{name} is {tuple(got.shape)}, not {tuple(want.shape)}"
        got_wide, want_wide = got.double(), want.double()
        same = got_wide == want_wide  # as are infinities, which have no difference
        error = _largest((got_wide - want_wide).abs().masked_fill(same, 0))
        relative = error / max(_largest(want_wide[want_wide.isfinite()].abs()), 1e-300)
        where = torch.cuda.get_device_name() if self.args.device == "cuda" else "the emulator"
        print(f"{name} on {where} ({self.args.target}): relative error {relative:.2g}")
        allowed = tolerance + (torch.finfo(got.dtype).eps / 2 if got.is_floating_point() else 0)
        assert relative <= allowed, f"{name}: the error is {relative:.2g}, at most {allowed:.2g}"
        print("correct")

    def verify(self, check: Callable[..., None], *arguments: Any) -> None:
        """Calls a check that the script defines, for results that `check` cannot compare.

        Args:
            check: raises an AssertionError where a result is wrong.
            arguments: of ``check``.
        """
        check(*arguments)

    def picture(self, name: str, svg: str) -> None:
        """Writes a picture to the folder of ``--pictures``, as ``<name>.svg``."""
        if self.args.pictures is not None:
            self.args.pictures.mkdir(parents=True, exist_ok=True)
            (self.args.pictures / f"{name}.svg").write_text(svg)

    def speed(
        self,
        run: Callable[[], Any],
        peers: Callable[[], Any] | Mapping[str, Callable[[], Any]],
        moved: int = 0,
        flops: int = 0,
    ) -> None:
        """Prints the median time of ``run`` and of ``peers`` on a GPU; nothing on the emulator.

        Args:
            run: launches the kernels.
            peers: the same by torch, or by several others by name.
            moved: bytes of global memory that must be read and written.
            flops: floating-point operations that must be done.
        """
        if self.args.device != "cuda":
            return
        case = Case(run, {"torch": peers} if callable(peers) else peers, moved, flops)
        own, times = case.times()
        lines = {"this kernel": own, **times}
        width = max(map(len, lines))
        for name, milliseconds in lines.items():
            rates = ", ".join(
                [*case.rates(milliseconds), f"{milliseconds / own:.2f} times as long"]
            )
            print(f"{name:<{width}}{milliseconds:9.4f} ms  {rates}")

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the function by ``torch.compile``, for each shape anew; as it is on a CPU."""
        return torch.compile(function, dynamic=False) if self.args.device == "cuda" else function

    def table(self, shapes: Sequence[tuple[int, ...]], case: Callable[..., Case]) -> None:
        """Prints the speed beside the fastest peer for each shape on a GPU; nothing elsewhere.

        Args:
            shapes: arguments of ``case``.
            case: returns what is timed.
        """
        if self.args.device != "cuda":
            return
        print(f"{'shape':<24}{'time':>12}  {'speed':<22}ratio to the best peer")
        for shape in shapes:
            torch.cuda.empty_cache()
            torch.compiler.reset()  # which compiles for a few shapes only
            line = case(*shape)
            own, times = line.times()
            best = min(times, key=times.__getitem__, default=None)
            ratio = f"{times[best] / own:.2f} of {best}" if best else "no peer takes it"
            sizes = " x ".join(map(str, shape))
            print(f"{sizes:<24}{own:9.4f} ms  {', '.join(line.rates(own)):<22}{ratio}")


def _integers(value: Any) -> list[int]:
    """Returns the integers that a value is or has."""
    several = value if isinstance(value, (list, tuple)) else [value]
    return [x for x in several if isinstance(x, int) and not isinstance(x, bool)]


def _largest(x: torch.Tensor) -> float:
    """Returns the largest element, NaN if one is; 0 where there are no elements."""
    return x.max().item() if x.numel() else 0.0


def _add(parser: argparse.ArgumentParser, name: str, option: Option) -> None:
    """Adds an option whose value is None where the command line does not give it."""
    text = f"{option.help}{option.bounds()}; {option.small}"
    text += f" ({option.large} on a GPU)" if option.large is not None else ""
    if isinstance(option.small, bool):
        parser.add_argument(f"--{name}", action="store_true", help=option.help)
    elif isinstance(option.small, (list, tuple)):
        kind = type(option.small[0])
        parser.add_argument(f"--{name}", type=kind, nargs="+", help=text)
    else:
        kind = type(option.small)
        parser.add_argument(f"--{name}", type=kind, choices=option.choices, help=text)


def optional(module: str, name: str) -> Callable[..., Any] | None:
    """Returns a function of a package that need not be there, as of a peer; None without it."""
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError:
        return None


def _median(function: Callable[[], Any]) -> float:
    """Returns milliseconds on a GPU whose clock is up."""
    end = time.monotonic() + _WARM_UP
    while time.monotonic() < end:
        function()
        torch.cuda.synchronize()
    return do_bench(function, return_mode="median")
