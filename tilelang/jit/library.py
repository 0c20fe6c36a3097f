"""Writes and builds kernels as shared libraries that load without the compiler."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tvm_ffi.libinfo

from ..errors import ConfigError
from ..ir.buffer import Buffer
from ..ir.expr import Binary, BinaryOp, Cast, IntImm, Operand, Select, Unary, UnaryOp, Var, as_expr
from ..runtime import cache
from ..runtime.nvrtc import template_root
from .lower import LoweredKernel, lower, lower_overlapping

#: The files of src/runtime that a library consists of, in the order of their inclusion.
_HOST = ("driver.h", "driver.cc", "device_memory.h", "exported_library.h")
_SCALARS = {
    "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t",
    "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t",
    "bool": "bool", "float32": "float", "float64": "double",
}  # fmt: skip
#: CUtensorMapDataType, cuda.h.
_MAP_TYPES = {
    "uint16": 1, "int16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6,
    "float32": 7, "float64": 8, "bfloat16": 9, "uint4": 14, "uint6": 15,
}  # fmt: skip
_INFIX: dict[int, str] = {
    BinaryOp.ADD: "+", BinaryOp.SUB: "-", BinaryOp.MUL: "*", BinaryOp.EQ: "==", BinaryOp.NE: "!=",
    BinaryOp.LT: "<", BinaryOp.LE: "<=", BinaryOp.GT: ">", BinaryOp.GE: ">=",
    BinaryOp.AND: "&&", BinaryOp.OR: "||",
}  # fmt: skip
_CALLS: dict[int, str] = {
    BinaryOp.FLOOR_DIV: "FloorDiv", BinaryOp.FLOOR_MOD: "FloorMod", BinaryOp.MIN: "std::min",
    BinaryOp.MAX: "std::max",
}  # fmt: skip
_ARITHMETIC = """
int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
int64_t FloorMod(int64_t a, int64_t b) { return a - FloorDiv(a, b) * b; }
"""


def source_of(kernel: Any) -> str:
    """Returns the C++ of a library: one file that needs the headers of tvm-ffi, no others of ours.

    Raises:
        ConfigError: the kernel needs what libraries do not have: memory that is zero between calls,
            tensors with strides of their own, dimensions that follow from no single extent.
    """
    return _Library(kernel).text()


def export(kernel: Any, path: Path) -> None:
    """Compiles the library of a kernel; see ``JITKernel.export_library``."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise ConfigError(
            "exporting a library needs a C++ compiler", notes=["install g++, or set CXX"]
        )
    found = Path(tvm_ffi.libinfo.find_libtvm_ffi())
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "library.cc"
        source.write_text(source_of(kernel), encoding="utf-8")
        line = [
            *compiler.split(), "-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden",
            *(f"-I{each}" for each in tvm_ffi.libinfo.include_paths()), str(source),
            "-o", str(path), f"-L{found.parent}", "-ltvm_ffi", "-ldl",
        ]  # fmt: skip
        done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigError(f"{line[0]} does not compile the library:\n{done.stderr.strip()}")


class _Library:
    """Writes the source of one kernel's library."""

    def __init__(self, kernel: Any) -> None:
        _, target, _, configs, options = kernel._recipe
        self._kernel = kernel
        lowered = lower(kernel.prim_func, target, configs)
        self._variants = [_Variant(kernel, lowered, options, "apart")]
        tensors = [param for param in kernel.spec.params if isinstance(param, Buffer)]
        if kernel.spec.written and len(tensors) > 1:
            overlapping = lower_overlapping(kernel.prim_func, lowered, target)
            self._variants.append(_Variant(kernel, overlapping, options, "overlapping"))

    def text(self) -> str:
        host = [(template_root() / "runtime" / name).read_text() for name in _HOST]
        parts = [
            f"// The kernel {self._kernel.name!r} for {self._kernel.target}, with machine code.",
            *(re.sub(r'#include "runtime/[^"]*"\n', "", each) for each in host),
            "#include <algorithm>\n\nnamespace {\n\nusing namespace tilelang::exported;",
            "namespace driver = tilelang::driver;", _ARITHMETIC,
            *(variant.text() for variant in self._variants), *self._run(), "}  // namespace",
            f"TVM_FFI_DLL_EXPORT_TYPED_FUNC({self._kernel.name}, Run)\n",
        ]  # fmt: skip
        return "\n".join(parts)

    def _run(self) -> Iterator[str]:
        """Yields the function of the library, which calls the variant that the arguments need."""
        first = self._variants[0]
        given = ", ".join(f"p{i}" for i in range(len(self._kernel.spec.params)))
        yield f"void Run({', '.join(first.parameters())}) {{"
        if len(self._variants) > 1:
            tensors = ", ".join(
                f"{{p{i}, {_flag(_is_written(self._kernel, param))}}}"
                for i, param in enumerate(self._kernel.spec.params)
                if isinstance(param, Buffer)
            )
            yield f"  if (Overlap({{{tensors}}})) return overlapping::Run({given});"
        yield f"  apart::Run({given});\n}}"


class _Variant:
    """Writes the code of a kernel for calls whose tensors lie apart, or overlap."""

    def __init__(self, kernel: Any, lowered: LoweredKernel, options: Any, name: str) -> None:
        self._kernel = kernel
        self._spec = lowered.spec
        self._name = name
        extra = (*lowered.options, *options)
        self._image = cache.compile_cached(lowered.lined_source, str(kernel.target), extra).cubin
        self._places: list[tuple[Buffer, str]] = []  # tensors and workspaces, what they are called
        self._variables: list[tuple[Var, str]] = []
        if any("zeroed" in each.attrs for each in self._spec.workspaces):
            raise self._refusal(
                "it needs memory that is zero between calls, which no library keeps"
            )

    def _refusal(self, reason: str) -> ConfigError:
        return ConfigError(f"kernel {self._kernel.name!r} cannot be exported: {reason}")

    def text(self) -> str:
        body = "\n".join(self._body())
        digits = ",".join(map(str, self._image))
        return "\n".join(
            (
                f"namespace {self._name} {{\n",
                f"alignas(16) const unsigned char kImage[] = {{{digits}}};",
                self._code(), body, f"}}  // namespace {self._name}\n",
            )
        )  # fmt: skip

    def parameters(self) -> list[str]:
        """Returns the declarations of the function's parameters, in order."""
        return [
            f"{'ffi::TensorView' if isinstance(param, Buffer) else self._scalar(param)} p{index}"
            for index, param in enumerate(self._spec.params)
        ]

    def _code(self) -> str:
        arch = re.fullmatch(r"sm_(\d+)(\d)(a?)", str(self._kernel.target))
        assert arch is not None
        entries = []
        for launch in self._spec.launches:
            most = self._expr(launch.shared_memory) if not self._vars_in(launch) else "227 * 1024"
            cluster = list(launch.cluster)
            cluster += [1] * (3 - len(cluster)) if cluster else []
            entries.append(
                f'{{"{launch.kernel_name}", {most}, {_braced(cluster)}, '
                f"{_flag(launch.cooperative)}, {_flag(launch.dependent)}}}"
            )
        exact = "true" if arch[3] else "false"
        rows = ", ".join(entries)
        return (
            "Code& TheCode() {\n"
            f"  static Code code(kImage, {{{rows}}}, {arch[1]}, {arch[2]}, {exact});\n"
            "  return code;\n}\n"
        )

    def _vars_in(self, launch: Any) -> bool:
        return not isinstance(as_expr(launch.shared_memory), IntImm)

    # The function ----------------------------------------------------------------------------

    def _body(self) -> Iterator[str]:
        for index, param in enumerate(self._spec.params):
            if isinstance(param, Buffer):
                self._places.append((param, f"p{index}"))
            else:
                self._variables.append((param, f"p{index}"))
        yield f"void Run({', '.join(self.parameters())}) {{\n  Arguments arguments;"
        buffers = [param for param in self._spec.params if isinstance(param, Buffer)]
        if not buffers:
            raise self._refusal("it takes no tensor, which would tell the GPU")
        for buffer in buffers:
            yield from self._tensor(buffer)
        for buffer in buffers:
            yield from self._extents(buffer)
        for fact in self._spec.assumptions:
            yield f"  Assumed({self._expr(fact.condition)}, {json.dumps(str(fact.message))});"
        yield "  driver::DeviceGuard guard(arguments.device());"
        for index, workspace in enumerate(self._spec.workspaces):
            yield self._workspace(workspace, f"w{index}")
        yield "  const auto& kernels = TheCode().On(arguments.device());"
        for number, launch in enumerate(self._spec.launches):
            yield from self._launch(number, launch)
        yield "}"

    def _scalar(self, param: Any) -> str:
        kind = str(param.dtype)
        if kind not in _SCALARS:
            raise self._refusal(f"its parameter {str(param.name)!r} is of the type {kind}")
        return "double" if kind.startswith("float") else "bool" if kind == "bool" else "int64_t"

    def _tensor(self, buffer: Any) -> Iterator[str]:
        name, place = str(buffer.name), self._place(buffer)
        if len(buffer.strides):
            raise self._refusal(f"its tensor {name!r} has strides of its own")
        dtype = buffer.dtype
        alignment = max(
            [1, *(int(n) for b, n in self._spec.alignment.items() if b.same_as(buffer))]
        )
        yield (
            f'  arguments.Tensor("{name}", {place}, ffi::StringToDLDataType("{dtype}"), '
            f"{len(buffer.shape)}, {alignment});"
        )
        for dimension, extent in enumerate(buffer.shape):
            if isinstance(extent, Var) and self._known(extent) is None:
                self._variables.append((extent, f"v{len(self._variables)}"))
                yield (
                    f"  const int64_t {self._variables[-1][1]} = {place}.size({dimension});"
                    f"  // {extent.name}"
                )
            kind = as_expr(extent).dtype
            if isinstance(extent, Operand) and kind.bits < 64:
                most = 2 ** (kind.bits - str(kind).startswith("int")) - 1
                yield f'  arguments.Fits("{name}", {place}, {dimension}, "{extent}", {most});'

    def _extents(self, buffer: Any) -> Iterator[str]:
        name, place = str(buffer.name), self._place(buffer)
        for dimension, extent in enumerate(buffer.shape):
            expected = self._expr(extent)
            yield f'  arguments.Extent("{name}", {place}, {dimension}, {expected});'

    def _place(self, buffer: Any) -> str:
        return next(place for each, place in self._places if each.same_as(buffer))

    def _workspace(self, buffer: Any, place: str) -> str:
        self._places.append((buffer, place))
        shape = _braced(map(self._expr, buffer.shape))
        instead = ""
        if "stand_in" in buffer.attrs:
            tensor, where = (buffer.attrs[key] for key in ("stand_in", "stands_in_where"))
            instead = f", {self._expr(where)} ? Address({self._place(tensor)}) : nullptr"
        return f'  Workspace {place}(arguments.device(), "{buffer.dtype}", {shape}{instead});'

    def _launch(self, number: int, launch: Any) -> Iterator[str]:
        grid, block = self._triple(launch.grid), self._triple(launch.block)
        yield f"  if (const std::array<int64_t, 3> grid{grid}; !IsEmpty(grid)) {{"
        pointers = []
        for index, arg in enumerate(launch.args):
            if isinstance(arg, Buffer):
                value = f"Bits(Address({self._place(arg)}))"
            elif hasattr(arg, "box"):
                yield self._map(index, arg)
                pointers.append(f"&a{index}")
                continue
            else:
                kind = _SCALARS.get(str(arg.dtype))
                if kind is None:
                    raise self._refusal(f"it passes a value of the type {arg.dtype}")
                value = f"Bits(static_cast<{kind}>({self._expr(arg)}))"
            yield f"    uint64_t a{index} = {value};"
            pointers.append(f"&a{index}")
        yield (
            f"    Launch(TheCode().entry({number}), kernels[{number}], arguments.device(), grid, "
            f"{block}, {self._expr(launch.shared_memory)}, {{{', '.join(pointers)}}});\n  }}"
        )

    def _map(self, index: int, spec: Any) -> str:
        kind = 0 if spec.dtype.bits == 8 else _MAP_TYPES[str(spec.dtype)]
        steps = list(spec.element_strides) or [1] * len(spec.dims)
        form = (
            f"{{{kind}, {_braced(spec.box)}, {_braced(steps)}, {spec.interleave}, {spec.swizzle}, "
            f"{spec.l2_promotion}, {spec.oob_fill}}}"
        )
        name = str(spec.buffer.name)
        dims, strides = (_braced(map(self._expr, each)) for each in (spec.dims, spec.strides))
        return (
            f'    driver::TensorMap a{index} = Encode("{name}", {form}, arguments.device(), '
            f"Address({self._place(spec.buffer)}), {dims}, {strides});"
        )

    def _triple(self, extents: Sequence[Any]) -> str:
        values = [self._expr(extent) for extent in extents]
        return _braced([*values, *["1"] * (3 - len(values))])

    # Expressions -----------------------------------------------------------------------------

    def _known(self, variable: Any) -> str | None:
        return next((name for each, name in self._variables if each.same_as(variable)), None)

    def _expr(self, value: Any) -> str:
        """Returns an expression of the host in C++, in 64 bits."""
        if not isinstance(value, Operand):
            return f"int64_t{{{int(value)}}}"
        expr = as_expr(value)
        if isinstance(expr, IntImm):
            return f"int64_t{{{expr.value}}}"
        if isinstance(expr, Var):
            name = self._known(expr)
            if name is None:
                raise self._refusal(f"no extent of a tensor is {str(expr.name)!r} alone")
            return name
        if isinstance(expr, Binary) and expr.op in _INFIX:
            return f"({self._expr(expr.a)} {_INFIX[expr.op]} {self._expr(expr.b)})"
        if isinstance(expr, Binary) and expr.op in _CALLS:
            return f"{_CALLS[expr.op]}({self._expr(expr.a)}, {self._expr(expr.b)})"
        if isinstance(expr, Unary) and expr.op in (UnaryOp.NOT, UnaryOp.NEG):
            return f"({'!' if expr.op == UnaryOp.NOT else '-'}{self._expr(expr.a)})"
        if isinstance(expr, Select):
            parts = map(self._expr, (expr.condition, expr.true_value, expr.false_value))
            return "({} ? {} : {})".format(*parts)
        if isinstance(expr, Cast) and str(expr.dtype) in ("int32", "int64"):
            kind = _SCALARS[str(expr.dtype)]
            return f"int64_t{{static_cast<{kind}>({self._expr(expr.value)})}}"
        raise self._refusal(f"its launch needs `{expr}`")


def _is_written(kernel: Any, tensor: Buffer) -> bool:
    return any(each.same_as(tensor) for each in kernel.spec.written)


def _braced(values: Any) -> str:
    return f"{{{', '.join(map(str, values))}}}"


def _flag(value: Any) -> str:
    return str(bool(value)).lower()
