"""Runs a kernel of a PTX or CUDA file: ``python -m tilelang.emulator kernel.ptx --entry f ...``."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilelang.emulator.device import Device, Kernel, LaunchReport, Module
from tilelang.emulator.timing import Report, command_line
from tilelang.errors import EmulatorError, TileLangError, UserError, system_text

_SANITIZE: dict[str, bool | str] = {"stop": True, "report": "report", "off": False}
_ARRAY = re.compile(r"(?P<dtype>\w+)\[(?P<shape>[\d,x ]*)\](?::(?P<fill>.+))?")
_DTYPES = {
    "f16": "f2", "f32": "f4", "f64": "f8", "s8": "i1", "s16": "i2", "s32": "i4", "s64": "i8",
    "u8": "u1", "u16": "u2", "u32": "u4", "u64": "u8", "i8": "i1", "i16": "i2", "i32": "i4",
    "i64": "i8",
}  # fmt: skip
_EPILOG = """
An argument is a number (3, 0x10, 1.5), or an array: TYPE[SHAPE][:FILL], with TYPE one of f16 f32
f64 bf16 s8..s64 u8..u64 and FILL one of zeros (default), ones, arange, random, a number, or the
path of an .npy file; integers must be in the range of TYPE, but arange starts again from its other
end. bf16 arrays are shown as their 16-bit codes.
"""


def _extents(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected one to three integers, x first, like 8,4,1; got {text!r}"
        ) from None


def _suppression(text: str) -> tuple[str, str | int]:
    kind, colon, place = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(
            f"expected KIND:PLACE, like race:kernel.py:57; got {text!r}"
        )
    return kind, int(place) if place.isdigit() else place


def parser() -> argparse.ArgumentParser:
    """Returns the options of the command."""
    parser = argparse.ArgumentParser("python -m tilelang.emulator", description=__doc__,
                                     epilog=_EPILOG)  # fmt: skip
    parser.add_argument("ptx", metavar="FILE", help="PTX, or CUDA C++ (.cu)")
    parser.add_argument("--arch", default="sm_100a")
    parser.add_argument("--entry", help="kernel; may be left out if there is one")
    parser.add_argument("--grid", type=_extents, default=(1,), metavar="X,Y,Z")
    parser.add_argument("--block", type=_extents, default=(32,), metavar="X,Y,Z")
    parser.add_argument("--cluster", type=_extents, metavar="X,Y,Z")
    parser.add_argument("--smem", type=int, default=0, help="dynamic shared memory in bytes")
    parser.add_argument("--arg", action="append", default=[], help="argument, once for each")
    parser.add_argument("--seed", type=int, default=0, help="of random arrays")
    parser.add_argument("--schedule", default="late", help="late, eager or a seed")
    parser.add_argument("--lint", action="append", default=[])
    parser.add_argument(
        "--sanitize", choices=_SANITIZE, default="stop",
        help="accesses that nothing orders: stop at the first, report all, or off",
    )  # fmt: skip
    parser.add_argument(
        "--letters",
        choices=("count", "fail"),
        default="count",
        help="findings that the PTX ISA forbids and known GPUs keep in order",
    )
    parser.add_argument(
        "--suppress", action="append", default=[], type=_suppression, metavar="KIND:PLACE",
        help="findings not to report, by PTX line, file.py:line or kernel; repeatable",
    )  # fmt: skip
    parser.add_argument("--limit", type=int, default=0, help="warp instructions, 0: none")
    parser.add_argument("--save", metavar="PREFIX", help="save arrays as PREFIX<n>.npy")
    parser.add_argument("--list", action="store_true", help="only list the kernels")
    command_line.add_options(parser, _extents)
    return parser


def parse_argument(text: str, seed: int) -> Any:
    """Returns the number or array that an ``--arg`` describes.

    Raises:
        UserError: the text is neither.
    """
    match = _ARRAY.fullmatch(text)
    if match is None:
        value = _number(text)
        if value is None:
            raise UserError(
                f"--arg {text!r} is neither an array nor a number",
                notes=["write an array as f32[1000]:random or i32[4,8]:zeros, a number as 1000"],
            )
        return value
    shape = tuple(int(part) for part in re.split(r"[,x ]+", match["shape"]) if part)
    return _array(match["dtype"], shape, match["fill"] or "zeros", seed)


def _number(text: str) -> int | float | None:
    for read in (lambda: int(text, 0), lambda: float(text)):
        try:
            return read()
        except ValueError:
            pass
    return None


def _array(name: str, shape: tuple[int, ...], fill: str, seed: int) -> np.ndarray:
    bfloat = name == "bf16"
    if not bfloat and name not in _DTYPES:
        raise UserError(f"unknown type {name!r}; choose from bf16, {', '.join(_DTYPES)}")
    dtype = np.dtype("f4" if bfloat else _DTYPES[name])
    try:
        array = _filled(dtype, shape, fill, np.random.default_rng(seed))
    except (MemoryError, ValueError) as error:  # also of shapes that NumPy refuses
        raise UserError(f"no array {name}{list(shape)}: {error}") from None
    if bfloat:  # the upper half of an f32, rounded to nearest even
        bits = array.view(np.uint32)
        array = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.ascontiguousarray(array)


def _filled(
    dtype: np.dtype, shape: tuple[int, ...], fill: str, rng: np.random.Generator
) -> np.ndarray:
    if fill == "zeros":
        return np.zeros(shape, dtype)
    if fill == "ones":
        return np.ones(shape, dtype)
    if fill == "arange":
        return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    if fill == "random":
        if dtype.kind == "f":
            return rng.standard_normal(shape).astype(dtype)
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    if fill.endswith(".npy"):
        return _loaded(dtype, shape, fill)
    value = _number(fill)
    if value is None:
        raise UserError(f"cannot fill an array with {fill!r}")
    return np.full(shape, _exact(np.array(value), dtype, fill), dtype)


def _loaded(dtype: np.dtype, shape: tuple[int, ...], path: str) -> np.ndarray:
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise UserError(f"cannot read {path}: {error}") from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        raise UserError(f"{path} does not contain an array of real numbers")
    if array.size != int(np.prod(shape)):
        raise UserError(f"{path} has the shape {array.shape}, which does not fill {shape}")
    return _exact(array, dtype, path).reshape(shape)


def _exact(values: np.ndarray, dtype: np.dtype, source: str) -> np.ndarray:
    """Returns the values in another type; only floating-point types round."""
    if values.dtype == dtype:
        return values
    try:
        with np.errstate(all="ignore"):
            result = values.astype(dtype)
    except OverflowError:
        raise UserError(f"{source} contains values that {dtype} cannot represent") from None
    if dtype.kind in "iu" and not np.array_equal(result.astype(object), values.astype(object)):
        raise UserError(f"{source} contains values that {dtype} cannot represent")
    return result


def _list(module: Module) -> None:
    for kernel in module.kernels.values():
        print(f"{kernel!r}: {kernel.instructions} instructions, "
              f"{kernel.static_shared} bytes of static shared memory")  # fmt: skip


def _show(args: list[Any], prefix: str | None) -> None:
    for index, value in enumerate(args):
        if not isinstance(value, np.ndarray):
            continue
        print(f"argument {index}: {value.dtype}{list(value.shape)}\n{value}")
        if prefix is not None:
            np.save(f"{prefix}{index}.npy", value)


def load(options: argparse.Namespace, path: str) -> Module:
    """Loads a file on a new device; CUDA C++ is compiled before."""
    device = Device(options.arch)
    if path.endswith(".cu"):
        return device.load_cuda(Path(path))
    return device.load_ptx(Path(path).read_bytes())


def _kernel(module: Module, entry: str | None) -> Kernel:
    if entry is None and len(module.kernels) != 1:
        raise UserError(
            f"the file has {len(module.kernels)} kernels: choose one by --entry",
            notes=[f"they are {', '.join(module.kernels)}"],
        )
    return module[entry or next(iter(module.kernels))]


def _profile(options: argparse.Namespace) -> command_line.Profile:
    """Returns the function that times kernels of files on arguments of their own."""

    def profile(
        path: str, entry: str | None, grid: Sequence[int], block: Sequence[int], smem: int
    ) -> Report:
        kernel = _kernel(load(options, path), entry)
        args = [parse_argument(text, options.seed + i) for i, text in enumerate(options.arg)]
        return kernel.profile(grid, block, args, cluster=options.cluster, smem=smem)

    return profile


def launch(options: argparse.Namespace, module: Module) -> tuple[LaunchReport, list[Any]]:
    """Runs the kernel that the options choose.

    Returns:
        The report, and the arguments as the kernel left them.

    Raises:
        UserError: there is no such kernel, or an argument does not fit.
        EmulatorError: the emulator found a fault.
    """
    args = [parse_argument(text, options.seed + i) for i, text in enumerate(options.arg)]
    schedule = int(options.schedule) if options.schedule.isdigit() else options.schedule
    report = _kernel(module, options.entry).launch(
        options.grid, options.block, args, cluster=options.cluster, smem=options.smem,
        schedule=schedule, lint=options.lint, instruction_limit=options.limit,
        sanitize=_SANITIZE[options.sanitize], letters=options.letters, suppress=options.suppress,
    )  # fmt: skip
    return report, args


def _run(options: argparse.Namespace) -> bool:
    """Runs the action that the options choose; returns whether the emulator found nothing."""
    module = load(options, options.ptx)
    if options.list:
        _list(module)
        return True
    if command_line.wanted(options):
        command_line.run(options, _profile(options))
        return True
    report, args = launch(options, module)
    _show(args, options.save)
    print(f"{report.instructions} warp instructions in {report.seconds:.3f} s")
    return not report.findings


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line.

    Returns:
        The exit status: 1 if the emulator found something, 2 if the launch could not be tried.
    """
    options = parser().parse_args(arguments)
    try:
        return 0 if _run(options) else 1
    except (TileLangError, OSError) as error:
        text = system_text(error) if isinstance(error, OSError) else str(error)
        print(f"error: {text}", file=sys.stderr)
        return 1 if isinstance(error, EmulatorError) else 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
