"""Loads the program that a command runs: a script, a kernel of a file, PTX or CUDA C++."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import inspect
import os
import re
import runpy
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..env import default_target as target_of_environment
from ..errors import Note, TileLangError, UserError
from ..target import device_target
from .asserts import compares

if TYPE_CHECKING:
    from ..profiler.judge import Comparison

_SOURCES = (".ptx", ".cu")
_IN_TRITON = re.compile(r"^\s*(?:import|from)\b.*\b(?:triton|helion)\b", re.M)
_PACKAGE = Path(__file__).resolve().parents[1]


@dataclasses.dataclass(frozen=True)
class Request:
    """The request of a command line.

    Attributes:
        path, name: the parts of ``FILE::NAME``; the name may be "".
        argv: arguments of the script.
        shapes: values of sizes and parameters by name.
        reference: ``"NAME"`` in the file, or ``"file.py::NAME"``; "" to look for one.
        seed: seed of random arguments.
        entry, grid, block, cluster, smem, args: the launch of PTX or CUDA C++.
        outputs: indices of the arguments of PTX or CUDA C++ that the reference computes; empty for
            the last ones.
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
    outputs: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Trial:
    """One more run of a program, with other inputs.

    Attributes:
        name: name of the inputs.
        text: the name, with details.
        run: runs the program with these inputs for a target.
    """

    name: str
    text: str
    run: Callable[[str], list[Comparison]]


@dataclasses.dataclass(frozen=True)
class Program:
    """The program that a command runs.

    Attributes:
        run: runs it once for a target, and returns its outputs with their references. Raises
            AssertionError if the program itself finds a wrong result.
        compared: a text that names the reference; "" if there is none.
        trials: inputs that break kernels, for which there is a reference.
        repeats: whether each run has the same inputs.
    """

    run: Callable[[str], list[Comparison]]
    compared: str = ""
    trials: tuple[Trial, ...] = ()
    repeats: bool = True


def program_of(request: Request) -> Program:
    """Returns the object that runs the program.

    Raises:
        UserError: there is no such file, or of no known kind.
    """
    text = text_of(request.path)
    if request.path.suffix in _SOURCES:
        from .outside_source import outside_source  # it needs the names of this module

        return outside_source(request)
    if request.path.suffix != ".py":
        raise UserError(f"{request.path.name}: a .py, .cu or .ptx file is expected")
    if request.name:
        return _named(request)
    how = "checked by the script itself" if compares(text) else ""
    return Program(functools.partial(run_script, request), how)


@contextmanager
def _as_script(path: Path, argv: tuple[str, ...]) -> Iterator[None]:
    """Sets the arguments and the folder of a script as Python does.

    Modules that it imports leave no bytecode behind: Python takes that for the module's, if the
    source changes within a second and keeps its length.
    """
    before = sys.argv, list(sys.path), sys.dont_write_bytecode
    sys.argv, sys.path = [str(path), *argv], [str(path.parent.resolve()), *sys.path]
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.argv, sys.path, sys.dont_write_bytecode = before


@contextmanager
def default_target(target: str) -> Iterator[None]:
    """Sets the target of code inside of the block that names none."""
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
        folder = path.is_dir()
        raise UserError(f"{str(path)!r} is a folder, not a file" if folder else f"no file {path}")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path.name} is no text in UTF-8: {error}") from None


@contextmanager
def emulated(text: str, target: str) -> Iterator[None]:
    """Runs Triton and Helion on the emulator inside of the block, and "cuda" if there is no GPU.

    Args:
        text: of the program, which tells what it is.
        target: of the emulator.
    """
    with ExitStack() as stack:
        if has_torch() and re.search(r"\bcuda\b", text):
            import torch

            if not torch.cuda.is_available():
                from ..emulator import as_cuda

                stack.enter_context(as_cuda(target))
        elif has_torch() and _IN_TRITON.search(text):
            from ..emulator.triton import emulate

            stack.enter_context(emulate(target))
        yield


@contextmanager
def poisoned() -> Iterator[None]:
    """Fills new tensors of torch without values with NaN, or with the largest integer."""
    if not has_torch():
        yield
        return
    import torch

    settings: Any = torch.utils.deterministic  # its names are not in the stubs
    before = torch.get_deterministic_debug_mode(), settings.fill_uninitialized_memory
    # torch.use_deterministic_algorithms does this, too, but imports torch._inductor first.
    torch.set_deterministic_debug_mode("warn")
    settings.fill_uninitialized_memory = True
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*deterministic.*")
            yield
    finally:
        torch.set_deterministic_debug_mode(before[0])
        settings.fill_uninitialized_memory = before[1]


def has_torch() -> bool:
    """Returns whether torch is installed: the package itself does not need it."""
    try:
        return importlib.util.find_spec("torch") is not None
    except (ImportError, ValueError):
        return False


def raised(error: Exception) -> str:
    """Returns an exception of a program, with the line of its own that it comes from."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _PACKAGE not in Path(frame.filename).parents]
    file, line = (own[-1].filename, own[-1].lineno) if own else ("", None)
    message = str(error)
    if isinstance(error, SyntaxError) and error.filename:
        file, line, message = error.filename, error.lineno, error.msg
    return f"{type(error).__name__}: {message}" + (f" ({Path(file).name}:{line})" if file else "")


def traced(error: Exception, path: Path) -> str:
    """Returns the traceback of an exception from the program's file on."""
    frames = traceback.extract_tb(error.__traceback__)
    first = next((i for i, frame in enumerate(frames) if Path(frame.filename) == path), 0)
    lines = traceback.format_list(frames[first:]) + traceback.format_exception_only(error)
    return "".join(["Traceback (most recent call last):\n", *lines]).rstrip()


class Ended(UserError):
    """A program called ``sys.exit`` where it should have gone on."""


@contextmanager
def answering() -> Iterator[None]:
    """Turns exceptions of a program inside of the block into errors of the user."""
    try:
        yield
    except (TileLangError, OSError):
        raise
    except SystemExit as error:
        raise Ended(f"the program ended itself with status {error.code}") from None
    except Exception as error:
        raise UserError(f"the program raised {raised(error)}") from error


def load(path: Path, argv: tuple[str, ...], run_name: str) -> dict[str, Any]:
    """Runs a Python file with its arguments; returns its names."""
    with _as_script(path, argv):
        return runpy.run_path(str(path), run_name=run_name)


def run_script(request: Request, target: str) -> list[Comparison]:
    """Runs a script once for a target.

    Raises:
        AssertionError: it finds a wrong result, or says so by its status.
    """
    seeded(request.seed)
    text = text_of(request.path)
    with default_target(target), emulated(text, target), poisoned():
        try:
            load(request.path, request.argv, "__main__")
        except SystemExit as error:
            if error.code not in (None, 0):
                status = error.code if isinstance(error.code, int) else f"1: {error.code}"
                raise AssertionError(f"the script ended with status {status}") from None
    return []


def seeded(seed: int) -> None:
    """Sets the seed of random inputs."""
    if has_torch():
        import torch

        torch.manual_seed(seed)


def judged(comparisons: Sequence[Comparison], texts: Iterable[str] = ()) -> None:
    """Compares outputs with expected ones; ``texts`` are the PTX of their kernels.

    Raises:
        AssertionError: an output is wrong.
        UserError: it cannot be told.
    """
    if not comparisons:
        return
    from ..profiler.judge import NotJudged, judge

    try:
        for comparison in comparisons:
            judge(comparison, "\n".join(texts))
    except NotJudged as error:
        raise UserError(f"the results cannot be compared: {error}") from None


# One kernel of a file -------------------------------------------------------------------------


def names_of(request: Request) -> dict[str, Any]:
    """Returns the names that a Python file defines.

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
        raise UserError(
            f"name a kernel of the file: {request.path}::NAME", notes=_kernels_note(request, names)
        )
    if request.name not in names:
        raise UserError(
            f"{request.path.name} defines no {request.name!r}", notes=_kernels_note(request, names)
        )
    return names


def _kernels_note(request: Request, names: Mapping[str, Any]) -> list[str]:
    """Returns a note with the kernels that a file defines."""
    from ..autotuner import AutotunedFunction
    from ..jit import EagerFunction, JITFunction, JITKernel

    kinds = EagerFunction | JITFunction | AutotunedFunction | JITKernel
    found = [
        name
        for name, value in names.items()
        if isinstance(value, kinds) or type(value).__name__ == "Func"
    ]
    return [f"{request.path.name} defines the kernels {', '.join(found)}"] if found else []


def _named(request: Request) -> Program:
    names = names_of(request)
    reference = reference_of(request, names)
    kernel = NamedKernel(request, names[request.name], reference)
    if reference is None:
        return Program(kernel.run)
    return Program(kernel.run, f"compared with {reference.__name__}")


def reference_of(request: Request, names: Mapping[str, Any]) -> Callable[..., Any] | None:
    """Returns the function named by ``--reference``; else one of the file whose name says it."""
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
    """Compiles the kernel that a name stands for."""
    from ..autotuner import AutotunedFunction
    from ..jit import EagerFunction, JITFunction, JITKernel, compile

    if isinstance(found, JITKernel):
        return found
    if isinstance(found, EagerFunction | JITFunction | AutotunedFunction):
        with default_target(target), _shapes_explained(request):
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


@contextmanager
def _shapes_explained(request: Request) -> Iterator[None]:
    """Adds the option that gives a size to an error for a missing size."""
    try:
        yield
    except TileLangError as error:
        if missing := re.fullmatch(r"no argument determines the value of (\w+)", error.message):
            error.notes = [Note(f"give its value: --shapes {missing[1]}=64")]
            if request.shapes:
                error.notes.append(Note(f"--shapes gave {', '.join(request.shapes)}"))
        raise


class NamedKernel:
    """One kernel of a file, which is called with random inputs.

    Args:
        request: has the values of dimensions and parameters.
        found: what the name stands for.
        reference: computes the outputs from the inputs; None if there is none.
    """

    def __init__(self, request: Request, found: Any, reference: Callable[..., Any] | None) -> None:
        if not has_torch():
            raise UserError(
                "a kernel by its name is called with tensors of torch, which is not installed: "
                "check a script that calls it, without ::NAME"
            )
        self._request, self._found, self._reference = request, found, reference

    def run(self, target: str) -> list[Comparison]:
        """Runs it once."""
        from ..profiler import compare
        from ..profiler.judge import Comparison

        seeded(self._request.seed)
        kernel = kernel_of(self._found, self._request, target)
        inputs = kernel.get_profiler().with_symbols(self._request.shapes).get_inputs("cpu")
        count, reference = len(inputs), self._reference
        if reference is not None and kernel.out_idx is None:
            # Without out_idx, the parameters that the reference does not take are outputs.
            count = len(inspect.signature(reference).parameters)
        given = inputs[:count]
        outputs = written_of(inputs, self._request.outputs) or inputs[count:]
        before = [each.clone() if hasattr(each, "clone") else each for each in given]
        with poisoned():
            result = compare.as_list(kernel(*inputs))
        if reference is None:
            return []
        return [Comparison(result or outputs, before, functools.partial(applied, reference))]


def written_of(inputs: list[Any], indices: Iterable[int]) -> list[Any]:
    """Returns the arguments that ``--outputs`` names.

    Raises:
        UserError: there is no such argument.
    """
    chosen = list(indices)
    if any(i >= len(inputs) for i in chosen):
        raise UserError(
            f"--outputs: there is no argument {max(chosen)}; they are 0 to {len(inputs) - 1}"
        )
    return [inputs[i] for i in chosen]


def applied(reference: Callable[..., Any], inputs: list[Any]) -> Any:
    """Calls a reference of a file."""
    with answering():
        return reference(*inputs)
