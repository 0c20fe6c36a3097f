"""What a command runs: a script, one kernel of a file, or PTX and CUDA C++ with arguments."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
import re
import runpy
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ..emulator import Device
from ..emulator.__main__ import parse_argument
from ..emulator.memory import is_array
from ..env import default_target as target_of_environment
from ..errors import TileLangError, UserError
from ..target import device_target

_SOURCES = (".ptx", ".cu")
_PACKAGE = Path(__file__).resolve().parents[1]


@dataclasses.dataclass(frozen=True)
class Request:
    """What the command line asks for.

    Attributes:
        path, name: of ``FILE::NAME``; the name may be "".
        argv: the script's own arguments.
        shapes: values of dimensions and parameters by name.
        reference: ``"NAME"`` in the file, or ``"file.py::NAME"``; "" to look for one.
        seed: of random arguments.
        entry, grid, block, cluster, smem, args: the launch of PTX or CUDA C++.
    """

    path: Path
    name: str = ""
    argv: tuple[str, ...] = ()
    shapes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    reference: str = ""
    seed: int = 0
    entry: str = ""
    grid: tuple[int, ...] = (1,)
    block: tuple[int, ...] = (32,)
    cluster: tuple[int, ...] | None = None
    smem: int = 0
    args: tuple[str, ...] = ()


#: Runs the program for a target once; raises AssertionError where a result is wrong.
Program = Callable[[str], None]


def program_of(request: Request) -> tuple[Program, str]:
    """Returns what runs the program, and what its results are compared with.

    Raises:
        UserError: there is no such file, or of no known kind.
    """
    text_of(request.path)
    if request.path.suffix in _SOURCES:
        how = f"compared with {request.reference}" if request.reference else ""
        return functools.partial(_run_source, request), how
    if request.path.suffix != ".py":
        raise UserError(f"{request.path.name}: a .py, .cu or .ptx file is expected")
    if request.name:
        return _named(request)
    return functools.partial(_run_script, request), "checked by the script itself"


@contextmanager
def _as_script(path: Path, argv: tuple[str, ...]) -> Iterator[None]:
    """The script's arguments and folder, as Python has them."""
    before = sys.argv, list(sys.path)
    sys.argv, sys.path = [str(path), *argv], [str(path.parent.resolve()), *sys.path]
    try:
        yield
    finally:
        sys.argv, sys.path = before


@contextmanager
def default_target(target: str) -> Iterator[None]:
    """Compiles for a target inside of the block what does not name one."""
    before = os.environ.get("TILELANG_DEFAULT_TARGET")
    os.environ["TILELANG_DEFAULT_TARGET"] = target
    try:
        yield
    finally:
        if before is None:
            del os.environ["TILELANG_DEFAULT_TARGET"]
        else:
            os.environ["TILELANG_DEFAULT_TARGET"] = before


def text_of(path: Path) -> str:
    """Reads a text.

    Raises:
        UserError: there is no such file, or it is not in UTF-8.
    """
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise UserError(f"no file {str(path)!r}: it {what}")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path.name} is no text in UTF-8: {error}") from None


@contextmanager
def emulated(text: str, target: str) -> Iterator[None]:
    """Programs in Triton or Helion run on the emulator, too; "cuda" means it where there is no GPU.

    Args:
        text: of the program, which tells what it is.
        target: of the emulator.
    """
    import torch

    from ..emulator import as_cuda
    from ..emulator.triton import emulate

    with ExitStack() as stack:
        if re.search(r"\bcuda\b", text) and not torch.cuda.is_available():
            stack.enter_context(as_cuda(target))
        elif re.search(r"^\s*(?:import|from)\b.*\b(?:triton|helion)\b", text, re.M):
            stack.enter_context(emulate(target))
        yield


@contextmanager
def poisoned() -> Iterator[None]:
    """What torch allocates without values is NaN, or the largest integer."""
    import torch

    settings: Any = torch.utils.deterministic  # its names are not in the stubs
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        settings.fill_uninitialized_memory,
    )
    torch.use_deterministic_algorithms(True, warn_only=True)
    settings.fill_uninitialized_memory = True
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*deterministic.*")
            yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        settings.fill_uninitialized_memory = before[2]


def raised(error: Exception) -> str:
    """An exception of a program, with the line of its own that it comes from."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _PACKAGE not in Path(frame.filename).parents]
    file, line = (own[-1].filename, own[-1].lineno) if own else ("", None)
    message = str(error)
    if isinstance(error, SyntaxError) and error.filename:
        file, line, message = error.filename, error.lineno, error.msg
    return f"{type(error).__name__}: {message}" + (f" ({Path(file).name}:{line})" if file else "")


@contextmanager
def answering() -> Iterator[None]:
    """What a program raises inside of the block is the user's error: it could not be tried."""
    try:
        yield
    except (TileLangError, OSError):
        raise
    except Exception as error:
        raise UserError(f"the program raised {raised(error)}") from error


def load(path: Path, argv: tuple[str, ...], run_name: str) -> dict[str, Any]:
    """Runs a Python file with its arguments; returns its names."""
    with _as_script(path, argv):
        return runpy.run_path(str(path), run_name=run_name)


def _run_script(request: Request, target: str) -> None:
    import torch

    torch.manual_seed(request.seed)
    text = text_of(request.path)
    with default_target(target), emulated(text, target), poisoned():
        try:
            load(request.path, request.argv, "__main__")
        except SystemExit as error:
            if error.code not in (None, 0):
                raise UserError(f"the script ended with status {error.code}") from None


# One kernel of a file -------------------------------------------------------------------------


def names_of(request: Request) -> dict[str, Any]:
    """What a Python file defines.

    Raises:
        UserError: there is no such file, or the name that is asked for is not among it.
    """
    if request.path.suffix != ".py":
        raise UserError(f"{str(request.path)!r} is no Python file")
    # Loading a file needs a target, too.
    chosen = target_of_environment() or str(device_target() or "sm_100a")
    text = text_of(request.path)
    with answering(), emulated(text, chosen), poisoned():
        names = load(request.path, request.argv, "__tilelang__")
    if not request.name:
        raise UserError(f"which kernel? name it, as {request.path}::NAME")
    if request.name not in names:
        raise UserError(f"{request.path.name} defines no {request.name!r}")
    return names


def _named(request: Request) -> tuple[Program, str]:
    names = names_of(request)
    reference = _reference(request, names)
    how = f"compared with {reference.__name__}" if reference is not None else ""
    return functools.partial(_run_named, request, names[request.name], reference), how


def _reference(request: Request, names: Mapping[str, Any]) -> Callable[..., Any] | None:
    """The function named by ``--reference``; else one of the file whose name says it."""
    path, _, name = request.reference.rpartition("::")
    if path:
        text_of(Path(path))
        with answering():
            names = load(Path(path), (), "__tilelang__")
    if name:
        if not callable(names.get(name)):
            raise UserError(f"{path or request.path.name} defines no function {name!r}")
        return names[name]
    kernel = request.name
    wanted = (f"{kernel}_reference", f"reference_{kernel}", "reference", "ref_program")
    return next((names[each] for each in wanted if callable(names.get(each))), None)


def kernel_of(found: Any, request: Request, target: str) -> Any:
    """Compiles what a name stands for."""
    from ..autotuner import AutotunedFunction
    from ..jit import EagerFunction, JITFunction, JITKernel, compile

    if isinstance(found, JITKernel):
        return found
    if isinstance(found, EagerFunction | JITFunction | AutotunedFunction):
        with default_target(target):
            return found.compile(**request.shapes)
    if inspect.isfunction(found):
        found = found(**request.shapes)
        return kernel_of(found, dataclasses.replace(request, shapes={}), target)
    if type(found).__name__ == "Func":
        return compile(found, target=target)
    if type(found).__module__.startswith("triton."):
        raise UserError(
            f"{request.name} is a kernel in Triton, whose arguments only its program knows: check "
            f"the script that launches it, {request.path.name} without ::{request.name}"
        )
    raise UserError(f"{request.name} is a {type(found).__name__}, no kernel")


def _run_named(request: Request, found: Any, reference: Any, target: str) -> None:
    import torch

    from ..profiler import compare

    torch.manual_seed(request.seed)
    kernel = kernel_of(found, request, target)
    profiler = kernel.get_profiler().with_symbols(request.shapes)
    inputs = profiler.get_inputs("cpu")
    given = list(inputs)
    if reference is not None and kernel.out_idx is None:
        # Without out_idx, the parameters that the reference does not take are outputs.
        count = len(inspect.signature(reference).parameters)
        given = inputs[:count]
        for output in inputs[count:]:
            output.fill_(float("nan") if output.is_floating_point() else -1)
    copies = [each.clone() if hasattr(each, "clone") else each for each in given]
    with poisoned():
        result = compare.as_list(kernel(*inputs))
    if reference is None:
        return
    expected = compare.as_list(reference(*copies))
    actual = result or inputs[len(given) :]
    bound = max((tolerance(each.dtype) for each in actual), default=0.0)
    compare.assert_close(actual, expected, rtol=bound, atol=bound)


def tolerance(dtype: Any) -> float:
    """How much results of a dtype may differ: four units in the last place, or 0.001."""
    import torch

    if not dtype.is_floating_point:
        return 0.0
    return max(4 * torch.finfo(dtype).eps, 1e-3)


# PTX and CUDA C++ -----------------------------------------------------------------------------


def _run_source(request: Request, target: str) -> None:
    device = Device(target)
    if request.path.suffix == ".cu":
        module = device.load_cuda(request.path)
    else:
        module = device.load_ptx(text_of(request.path))
    entry = request.name or request.entry
    if not entry and len(module.kernels) != 1:
        raise UserError(f"choose a kernel, FILE::NAME: {', '.join(module.kernels)}")
    args = [parse_argument(each, request.seed + i) for i, each in enumerate(request.args)]
    copies = [each.copy() if is_array(each) else each for each in args]
    kernel = module[entry or next(iter(module.kernels))]
    if not args and kernel.params:
        wanted = ", ".join(f".{each.type} {each.name}" for each in kernel.params)
        raise UserError(
            f"the kernel takes {len(kernel.params)} arguments ({wanted}): give each by --arg, an "
            "array as f32[1000]:random, a number as 1000; and the launch by --grid and --block"
        )
    kernel.launch(request.grid, request.block, args, cluster=request.cluster, smem=request.smem)
    if request.reference:
        _compare_arrays(request, args, copies)


def _compare_arrays(request: Request, args: list[Any], before: list[Any]) -> None:
    """Compares all arrays with those that the reference has changed or returned."""
    import torch

    from ..profiler import compare

    reference = _reference(request, {})
    assert reference is not None
    expected = [torch.from_numpy(each) if is_array(each) else each for each in before]
    returned = compare.as_list(reference(*expected))
    actual = [torch.from_numpy(each) for each in args if is_array(each)]
    wanted = [each for each in expected if hasattr(each, "dtype")]
    if returned:  # the last arrays
        actual, wanted = actual[-len(returned) :], returned
    bound = max((tolerance(each.dtype) for each in actual), default=0.0)
    compare.assert_close(actual, wanted, rtol=bound, atol=bound)
