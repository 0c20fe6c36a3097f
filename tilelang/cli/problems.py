"""Reads problems and solutions in the formats of KernelBench and FlashInfer-Bench."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import TileLangError, UserError
from ..runtime import poison
from .programs import answering, load, poisoned, text_of

#: The largest tensor of a workload in bytes. A larger one is a mistake in the shapes.
_MOST_ELEMENTS = 1 << 31


@dataclasses.dataclass(frozen=True)
class Workload:
    """One set of inputs of a problem.

    Attributes:
        name: of the workload.
        shapes: the axes that it sets.
        inputs: makes the inputs from a seed.
        expected: what the reference returns for them.
    """

    name: str
    shapes: Mapping[str, int]
    inputs: Callable[[int], list[Any]]
    expected: Callable[[list[Any]], Any]


@dataclasses.dataclass(frozen=True)
class Problem:
    """A problem with the solution that is to be graded.

    Attributes:
        kind: ``"kernelbench"`` or ``"flashinfer-bench"``.
        workloads: the inputs to try.
        text: of the solution, which tells what it runs on.
        solution: loads the solution, whose module may compile kernels; the function that is
            returned takes the inputs and returns the outputs.
    """

    kind: str
    workloads: list[Workload]
    text: str
    solution: Callable[[], Callable[[list[Any]], Any]]


def read(problem: Path, solution: Path, workloads: Path | None) -> Problem:
    """Reads a problem (.py: KernelBench, .json: FlashInfer-Bench) and a solution of the same kind.

    Raises:
        UserError: a file is missing, or not of its format.
    """
    for path in (problem, solution, *([workloads] if workloads else ())):
        text_of(path)
    if problem.suffix == ".py":
        if workloads is not None:
            raise UserError("a problem of KernelBench has no file of workloads")
        return _kernelbench(problem, solution)
    if problem.suffix == ".json":
        if workloads is None:
            raise UserError("a problem of FlashInfer-Bench needs --workloads FILE.jsonl")
        return _flashinfer(problem, solution, workloads)
    raise UserError(f"{problem.name}: a .py (KernelBench) or .json (FlashInfer-Bench) is expected")


def problem_of(files: Mapping[str, str | None]) -> Problem:
    """Reads ``"problem"``, ``"solution"`` and ``"workloads"`` (may be None); see :func:`read`."""
    problem, solution, workloads = (files[each] for each in ("problem", "solution", "workloads"))
    return read(Path(str(problem)), Path(str(solution)), Path(workloads) if workloads else None)


def _named(names: Mapping[str, Any], path: Path, wanted: str) -> Any:
    if not callable(names.get(wanted)):
        raise UserError(f"{path.name} defines no {wanted!r}")
    return names[wanted]


def _load(path: Path) -> dict[str, Any]:
    with answering(), poisoned():
        return load(path, (), "__problem__")


# KernelBench: Model, get_inputs and get_init_inputs; the solution has ModelNew ------------------


def _kernelbench(problem: Path, solution: Path) -> Problem:
    import torch

    names = _load(problem)
    make = _named(names, problem, "get_inputs")
    arguments = names.get("get_init_inputs", list)

    def model(cls: Any) -> Any:
        torch.manual_seed(0)  # both models draw the same weights
        return cls(*arguments()).eval()

    with answering():
        reference = model(_named(names, problem, "Model"))

    def inputs(seed: int) -> list[Any]:
        torch.manual_seed(seed + 1)
        return list(make())

    def expected(values: list[Any]) -> Any:
        with torch.no_grad():
            return reference(*values)

    def load_solution() -> Callable[[list[Any]], Any]:
        other = placed(model(_named(_load(solution), solution, "ModelNew")))
        own, given = other.state_dict(), reference.state_dict()
        if own.keys() == given.keys():
            other.load_state_dict(given)

        def run(values: list[Any]) -> Any:
            with torch.no_grad():
                return other(*values)

        return run

    workload = Workload("get_inputs", {}, inputs, expected)
    return Problem("kernelbench", [workload], text_of(solution), load_solution)


# FlashInfer-Bench: a definition, workloads (one JSON a line) and a solution ---------------------


def _json(text: str, path: Path) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{path.name} is no JSON: {error}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path.name} holds no JSON object")
    return content


def _field(content: Mapping[str, Any], path: Path, name: str) -> Any:
    if not isinstance(content, dict) or name not in content:
        raise UserError(f"{path.name} has no {name!r}")
    return content[name]


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Adds the name of the file to errors about its format."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, TileLangError):
            raise
        raise UserError(
            f"{path.name} is not of FlashInfer-Bench's format: {type(error).__name__}: {error}"
        ) from error


def _flashinfer(problem: Path, solution: Path, workloads: Path) -> Problem:
    definition = _json(text_of(problem), problem)
    content = _json(text_of(solution), solution)
    if content.get("definition") != _field(definition, problem, "name"):
        raise UserError(f"{solution.name} is for the definition {content.get('definition')!r}")
    with _reading(problem):
        for each in ("inputs", "outputs"):
            for tensor in _field(definition, problem, each).values():
                _dtype(tensor["dtype"]), list(tensor["shape"] or ())
        sources = {"reference.py": _field(definition, problem, "reference")}
        reference = _function(sources, "reference.py::run", problem)
    with _reading(workloads):
        lines = [line for line in text_of(workloads).splitlines() if line.strip()]
        found = [
            _workload(definition, _json(line, workloads), workloads, reference, problem)
            for line in lines
        ]
    if not found:
        raise UserError(f"{workloads.name} holds no workload")
    with _reading(solution):
        own = {each["path"]: each["content"] for each in _field(content, solution, "sources")}
        spec = _field(content, solution, "spec")
        entry = _field(spec, solution, "entry_point")
        in_place = bool(spec.get("destination_passing_style", False))
        text = "\n".join(own.values())

    def load_solution() -> Callable[[list[Any]], Any]:
        return _solution(_function(own, entry, solution), in_place, definition)

    return Problem("flashinfer-bench", found, text, load_solution)


def _function(sources: Mapping[str, str], entry: str, path: Path) -> Callable[..., Any]:
    """Returns a function of sources that are written to a folder of their own."""
    file, _, name = entry.partition("::")
    folder = Path(tempfile.mkdtemp(prefix="tilelang-problem-"))
    for relative, text in sources.items():
        target = (folder / relative).resolve()
        if not target.is_relative_to(folder.resolve()):
            raise UserError(f"{path.name}: the source {relative!r} lies outside of its folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    if not (folder / file).is_file():
        raise UserError(f"{path.name} has no source {file!r}")
    return _named(_load(folder / file), path, name)


def _solution(
    function: Callable[..., Any], in_place: bool, definition: Mapping[str, Any]
) -> Callable[[list[Any]], Any]:
    import torch

    if not in_place:
        return lambda values: function(*values)

    def run(values: list[Any]) -> Any:
        axes = _axes_of(definition, values)
        outputs = [
            placed(torch.empty(_extents(each["shape"], axes), dtype=_dtype(each["dtype"])))
            for each in definition["outputs"].values()
        ]
        with poison.call(str(definition["name"]), outputs):
            function(*values, *outputs)
        return outputs

    return run


def placed(value: Any) -> Any:
    """Moves a tensor or module to "cuda" if that means the emulator."""
    from ..emulator.cuda_devices import active

    return value.cuda() if active() and hasattr(value, "cuda") else value


def _axes_of(definition: Mapping[str, Any], values: Iterable[Any]) -> dict[str, int]:
    """Returns the axes that the inputs have."""
    axes = {name: axis["value"] for name, axis in definition["axes"].items() if "value" in axis}
    for each, value in zip(definition["inputs"].values(), values, strict=True):
        axes |= dict(zip(each["shape"] or (), getattr(value, "shape", ()), strict=False))
    return axes


def _extents(shape: Iterable[str], axes: Mapping[str, int]) -> list[int]:
    missing = [name for name in shape if name not in axes]
    if missing:
        raise UserError(f"the axis {missing[0]!r} has no value")
    return [axes[name] for name in shape]


def _dtype(name: str) -> Any:
    import torch

    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise UserError(f"no dtype {name!r}")
    return dtype


def _workload(
    definition: Mapping[str, Any], line: Mapping[str, Any], path: Path,
    reference: Callable[..., Any], problem: Path,
) -> Workload:  # fmt: skip
    workload = _field(line, path, "workload")
    given = _field(workload, path, "axes")
    known = _field(definition, problem, "axes")
    axes = {name: axis["value"] for name, axis in known.items() if "value" in axis} | given
    for axis, value in axes.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise UserError(f"{path.name}: the axis {axis!r} is {value!r}, no length")
    specs = _field(definition, problem, "inputs")
    sources = workload.get("inputs", {})

    def inputs(seed: int) -> list[Any]:
        return [
            _input(name, each, axes, sources.get(name, {"type": "random"}), seed + i)
            for i, (name, each) in enumerate(specs.items())
        ]

    name = str(workload.get("uuid", ", ".join(f"{key}={value}" for key, value in given.items())))
    return Workload(name, given, inputs, lambda values: reference(*values))


def _input(
    name: str,
    spec: Mapping[str, Any],
    axes: Mapping[str, int],
    source: Mapping[str, Any],
    seed: int,
) -> Any:
    import torch

    if source["type"] == "scalar":
        return source["value"]
    if source["type"] != "random":
        raise UserError(f"input {name!r} comes from {source['type']!r}: only random and scalar do")
    shape, dtype = _extents(spec["shape"], axes), _dtype(spec["dtype"])
    if torch.Size(shape).numel() > _MOST_ELEMENTS:
        raise UserError(f"input {name!r} would have the shape {shape}")
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(0, 2 if dtype == torch.bool else 100, shape, generator=generator).to(dtype)
