"""CUDA C++ to PTX and machine code with NVRTC, in this process and without a CUDA toolkit.

The compiler and the CUDA headers come from the wheels ``nvidia-cuda-nvrtc`` and
``nvidia-cuda-runtime``; the device headers of TileLang lie in ``tl_templates``. C++ of the program
may include CUDA's C++ library where the wheel ``nvidia-cuda-cccl`` is installed.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from .. import _ffi
from ..errors import CompileError, ConfigError, DriverError, InternalError, ResourceError
from .host_headers import HEADERS

# Leaves out textures and the device runtime, which no kernel uses: a fifth of the time. The larger
# libraries of CUDA's C++ name types of them.
_MINIMAL = "--minimal"
_NOT_MINIMAL = re.compile(r"^\s*#\s*include\s*<(?:cub|thrust)/", re.M)
# A source that has a tensor map of its own.
_DEFINES_MAP = re.compile(r"\b(?:struct|class|using)\s+(?:\w+\([^)]*\)\s+)*CUtensorMap(?:_st)?\b")
# A hit of NVRTC's own cache (where there is a GPU) leaves the log empty; ours keeps it.
_BASE_OPTIONS = ("-std=c++20", "-default-device", "-lineinfo", "--no-cache")
# What ptxas says of registers is read from the log.
_MACHINE_CODE_OPTIONS = ("--ptxas-options=-v",)


@dataclass(frozen=True)
class Artifact:
    """The result of one compilation.

    Attributes:
        ptx: the PTX text.
        cubin: the ELF image for one architecture; empty where no machine code was asked for.
        log: what NVRTC said, and ptxas with the resources that each kernel uses if it ran.
    """

    ptx: str
    cubin: bytes
    log: str

    def to_bytes(self) -> bytes:
        """Returns the artifact as one block of bytes."""
        head = json.dumps({**asdict(self), "cubin": len(self.cubin)}).encode()
        return len(head).to_bytes(8, "little") + head + self.cubin

    @staticmethod
    def from_bytes(data: bytes) -> Artifact:
        """Inverse of :meth:`to_bytes`; raises ValueError for anything else."""
        end = 8 + int.from_bytes(data[:8], "little")
        try:
            fields = json.loads(data[8:end])
        except RecursionError:
            fields = None
        cubin = data[end:]
        kinds = {"ptx": str, "cubin": int, "log": str}
        valid = isinstance(fields, dict) and all(
            type(fields.get(name)) is kind for name, kind in kinds.items()
        )
        if not valid or len(cubin) != fields["cubin"]:
            raise ValueError("no artifact")
        return Artifact(fields["ptx"], cubin, fields["log"])


@functools.cache
def _nvrtc() -> Any:
    from cuda.bindings import nvrtc

    return nvrtc


@functools.cache
def version() -> str:
    """Returns the version of NVRTC, e.g. ``"13.0"``."""
    major, minor = _checked(_nvrtc().nvrtcVersion())
    return f"{major}.{minor}"


@functools.cache
def template_root() -> Path:
    """Returns the folder that contains ``tl_templates``, TileLang's device headers."""
    source_tree = Path(__file__).resolve().parents[2] / "src"
    for folder in (source_tree, _ffi.LIBRARY_PATH.parent):
        if (folder / "tl_templates").is_dir():
            return folder
    return source_tree


@functools.cache
def cuda_include() -> Path:
    """Returns the folder of the CUDA headers; raises ConfigError when they are not installed."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations if spec else None) or ():
        for header in sorted(Path(folder).glob("cu*/include/cuda_fp16.h"), reverse=True):
            return header.parent
    raise ConfigError(
        "the CUDA headers were not found", notes=["pip install 'nvidia-cuda-runtime>=13.0,<13.1'"]
    )


def include_folders() -> list[Path]:
    """Returns where headers are looked for: TileLang's, CUDA's, and its C++ library if it is there.

    Raises:
        ConfigError: CUDA's headers are not installed.
    """
    cuda = cuda_include()
    return [template_root(), cuda, *(folder for folder in [cuda / "cccl"] if folder.is_dir())]


def options_for(
    arch: str, extra: tuple[str, ...] = (), machine_code: bool = True
) -> tuple[str, ...]:
    """Returns the NVRTC options for an architecture ("sm_90a"), without include folders."""
    if machine_code:
        return (f"--gpu-architecture={arch}", *_BASE_OPTIONS, *_MACHINE_CODE_OPTIONS, *extra)
    return (f"--gpu-architecture={arch.replace('sm_', 'compute_')}", *_BASE_OPTIONS, *extra)


def compile_cuda(
    source: str, arch: str, extra: tuple[str, ...] = (), machine_code: bool = True
) -> Artifact:
    """Compiles CUDA C++ for one architecture.

    Args:
        source: the program; ``#include <tl_templates/cuda/...>`` and CUDA's headers are found.
        arch: ``"sm_80"``, ``"sm_90a"`` or ``"sm_100a"``.
        extra: further NVRTC options.
        machine_code: assembles the PTX, too; the PTX is the same without, and comes sooner.

    Raises:
        CompileError: source that the user brings along does not compile, or a function or header
            of it is missing.
        ResourceError: an instruction needs more registers than a thread can have.
        InternalError: generated source does not compile; holds the log and the lines at fault.
        ConfigError: NVRTC does not know one of the options.
    """
    extra = extra if _NOT_MINIMAL.search(source) else (*extra, _MINIMAL)
    return _compile(Source(source), options_for(arch, extra, machine_code), _failure)


@dataclass(frozen=True)
class Source:
    """C++ source.

    Attributes:
        text: of the program.
        name: of its file, in messages and source lines.
        headers: texts by the names that it includes them by.
    """

    text: str
    name: str = "kernel.cu"
    headers: Mapping[str, str] = field(default_factory=dict)


def compile_foreign(source: Source, arch: str, options: tuple[str, ...] = ()) -> Artifact:
    """Compiles CUDA C++ that the user has written, all of it.

    Headers of the host have substitutes (:mod:`.host_headers`), which those of the source replace.
    A tensor map needs no header.

    Raises:
        CompileError: it does not compile; names the wheel or the argument that brings a header
            which is missing.
        ConfigError: NVRTC does not know one of the options.
    """
    source = replace(source, headers={**HEADERS, **source.headers})
    flags: tuple[str, ...] = ("--device-int128",)
    if re.search(r"\bCUtensorMap(?:_st)?\b", source.text) and not _DEFINES_MAP.search(source.text):
        flags += ("--pre-include=cuda.h",)
    return _compile(source, options_for(arch, (*flags, *options)), _foreign_failure)


def _compile(source: Source, flags: tuple[str, ...], failure: Callable[..., Exception]) -> Artifact:
    nvrtc = _nvrtc()
    options = [*flags, *(f"-I{folder}" for folder in include_folders())]
    headers = [text.encode() for text in source.headers.values()]
    names = [name.encode() for name in source.headers]
    program = _checked(
        nvrtc.nvrtcCreateProgram(
            source.text.encode(), source.name.encode(), len(headers), headers, names
        )
    )
    try:
        encoded = [option.encode() for option in options]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)
        log = _text(program, "ProgramLog")
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise failure(status, source.text, log, options)
        size = _checked(nvrtc.nvrtcGetCUBINSize(program))
        return Artifact(_text(program, "PTX"), _bytes(program, "CUBIN") if size else b"", log)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _checked(results: tuple[Any, ...]) -> Any:
    nvrtc = _nvrtc()
    status, *values = results
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise DriverError(f"NVRTC failed: {nvrtc.nvrtcGetErrorString(status)[1].decode()}")
    return values[0] if len(values) == 1 else tuple(values)


def _bytes(program: Any, what: str) -> bytes:
    nvrtc = _nvrtc()
    size = _checked(getattr(nvrtc, f"nvrtcGet{what}Size")(program))
    # NVRTC writes into it: all strings of one byte are one object of Python's, and have to stay.
    buffer = b" " * (size + 2)
    _checked(getattr(nvrtc, f"nvrtcGet{what}")(program, buffer))
    return buffer[:size]


def _text(program: Any, what: str) -> str:
    return _bytes(program, what).rstrip(b"\0").decode(errors="replace")


def _refused_option(status: Any, log: str, options: list[str]) -> Exception | None:
    if status == _nvrtc().nvrtcResult.NVRTC_ERROR_INVALID_OPTION:
        return ConfigError(f"NVRTC refuses an option among {options}:\n{log.strip()}")
    if refused := re.search(r"ptxas (?:fatal|error)\s*: Unknown option '?([^'\n]*)", log):
        return ConfigError(f"ptxas has no option {refused[1]!r}; options are {options}")
    return None


def _foreign_failure(status: Any, source: str, log: str, options: list[str]) -> Exception:
    if refused := _refused_option(status, log, options):
        return refused
    if missing := _missing_header(log, "headers={'name': 'text'} or options=['-I<folder>']"):
        return CompileError(f"{missing[0]}\n{log.strip()}", notes=[missing[1]])
    return CompileError(f"the CUDA C++ source does not compile\n{log.strip()}")


def _failure(status: Any, source: str, log: str, options: list[str]) -> Exception:
    if refused := _refused_option(status, log, options):
        return refused
    if scarce := _too_few_registers(source, log):
        return scarce
    excerpt = "\n".join(_lines_at_fault(source, log))
    if missing := _missing_header(log, "compile_flags=['-I<folder>']"):
        what, advice = missing
        return CompileError(f"{what}\n{log.strip()}\n{excerpt}", notes=[advice])
    if cause := _user_mistake(source, log):
        return CompileError(f"{cause}\n{_without_warnings(log)}\n{excerpt}")
    return InternalError(f"the generated CUDA code does not compile\n{log.strip()}\n{excerpt}")


def _too_few_registers(source: str, log: str) -> Exception | None:
    """An instruction whose operands are more registers than a thread of the kernel gets."""
    found = re.search(
        r"Insufficient registers \((\d+)\) to compile .* in function (\w+)\."
        r".*register target of (\d+)",
        log,
    )
    if found is None:
        return None
    has, kernel, needed = found.groups()
    bound = re.search(rf"__launch_bounds__\((\d+)[^)]*\)\s*{kernel}\(", source)
    threads = f"each of the {bound[1]} threads" if bound else "each thread"
    return ResourceError(
        f"{kernel}: {threads} (of all roles together) gets {has} registers of the 65536 of an SM, "
        f"but an instruction of it needs {needed}",
        notes=[
            "a gemm's result takes M * N / threads registers of each thread, beside those that "
            "others need: take a smaller tile"
        ],
    )


_BROUGHT = "// C++ source of the program"
# The folders of CUDA's C++ library.
_CCCL = ("cuda/", "cub/", "nv/", "thrust/")


def _missing_header(log: str, adds: str) -> tuple[str, str] | None:
    """Returns the message for a missing header that only the user's code includes.

    Args:
        adds: the argument that brings another one.
    """
    found = re.search(r'cannot open source file "([^"]+)"', log)
    if found is None or found[1].startswith("tl_templates/"):
        return None
    what = f"no header {found[1]!r} was found, which the C++ source of the kernel needs"
    if found[1].startswith(_CCCL) and not (cuda_include() / "cccl").is_dir():
        return what, "it is in a wheel: pip install 'nvidia-cuda-cccl>=13.0,<13.1'"
    folders = ", ".join(map(str, include_folders()))
    return what, f"headers are looked for in {folders}; {adds} adds one"


def _user_mistake(source: str, log: str) -> str | None:
    """Returns the error for the user if the first error is in, or for lack of, their C++ source."""
    error = re.search(r"^(.+?)\((\d+)\): (?:catastrophic )?error: (.*)", log, re.M)
    if error is None:
        return None
    at = _physical_lines(source).get((error[1], int(error[2])))
    if at is None:
        included = re.search(rf"{re.escape(_BROUGHT)}\n(?:.*\n)*?\s*#\s*include", source)
        ours = Path(error[1]).is_relative_to(template_root())
        return None if ours or not included else f"a header does not compile: {error[1]}"
    before = source.split("\n")[:at]
    opened, closed = (
        max((n for n, line in enumerate(before) if line == mark), default=-1)
        for mark in (_BROUGHT, "// end of it")
    )
    if opened > closed:
        return "the C++ source that the kernel brings along does not compile"
    missing = re.fullmatch(r'identifier "(\w+)" is undefined', error[3].strip())
    if missing and f"{missing[1]}(" in source.split("\n")[at]:
        return f"no C++ source of the kernel defines {missing[1]}, which T.call_extern calls"
    return None


def _without_warnings(log: str) -> str:
    """Returns the errors of a log, each with its line and caret."""
    parts = re.split(r"\n\s*\n", log.strip())
    return "\n".join(part for part in parts if "warning #" not in part and "Remark:" not in part)


def _lines_at_fault(source: str, log: str) -> list[str]:
    """Returns the generated lines that the log complains about, each with two lines around it."""
    physical = _physical_lines(source)
    lines = source.split("\n")
    excerpt = []
    for file, number in dict.fromkeys(
        re.findall(r"^(.+?)\((\d+)\): (?:catastrophic )?error", log, re.M)
    ):
        at = physical.get((file, int(number)))
        if at is None:
            continue
        excerpt.append(f"--- generated code for {file}:{number}")
        for i in range(max(0, at - 2), min(len(lines), at + 3)):
            excerpt.append(f"{'>' if i == at else ' '}{i + 1:>5} | {lines[i]}")
    return excerpt[:40]


def _physical_lines(source: str) -> dict[tuple[str, int], int]:
    """Maps (file, line) as ``#line`` directives number them to the index of the line itself."""
    file, number = "kernel.cu", 1
    physical: dict[tuple[str, int], int] = {}
    for index, line in enumerate(source.split("\n")):
        directive = re.match(r'\s*#\s*line\s+(\d+)(?:\s+"(.*)")?', line)
        if directive:
            file, number = directive[2] or file, int(directive[1])
            continue
        physical.setdefault((file, number), index)
        number += 1
    return physical
