"""Builds thread IR by hand, and compiles what code generation makes of it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tvm_ffi

from tilelang import _ffi

_OPS = [
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "min",
    "max",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "and",
    "or",
    "&",
    "|",
    "^",
    "<<",
    ">>",
]
TEMPLATES = Path(__file__).resolve().parents[2] / "src"


def ir(name: str, *args: Any) -> Any:
    """Calls ``tl.ir.<name>``."""
    return _ffi.get(f"ir.{name}")(*args)


def dt(name: str) -> Any:
    return tvm_ffi.dtype(name)


def expr(value: Any, dtype: str = "int32") -> Any:
    """A node: itself, or the constant ``value`` of ``dtype``."""
    if isinstance(value, E):
        return value.node
    if isinstance(value, (bool, int)) and not dtype.startswith(("float", "bfloat")):
        return ir("IntImm", dt(dtype), int(value), None)
    if isinstance(value, (int, float)):
        return ir("FloatImm", dt(dtype), float(value), None)
    return value


class E:
    """An expression with Python's operators; constants take the other operand's type."""

    def __init__(self, node: Any) -> None:
        self.node = node

    def op(self, op: str, other: Any, swap: bool = False) -> E:
        a, b = self.node, expr(other, str(self.node.dtype))
        return E(ir("Arithmetic", _OPS.index(op), *((b, a) if swap else (a, b)), None))

    def __add__(self, o: Any) -> E:
        return self.op("+", o)

    def __sub__(self, o: Any) -> E:
        return self.op("-", o)

    def __mul__(self, o: Any) -> E:
        return self.op("*", o)

    def __rmul__(self, o: Any) -> E:
        return self.op("*", o, True)

    def __truediv__(self, o: Any) -> E:
        return self.op("/", o)

    def __floordiv__(self, o: Any) -> E:
        return self.op("//", o)

    def __mod__(self, o: Any) -> E:
        return self.op("%", o)

    def __lt__(self, o: Any) -> E:
        return self.op("<", o)

    def __ge__(self, o: Any) -> E:
        return self.op(">=", o)

    def __and__(self, o: Any) -> E:
        return self.op("&", o)

    def __xor__(self, o: Any) -> E:
        return self.op("^", o)

    def __neg__(self) -> E:
        return E(ir("Unary", 0, self.node, None))

    def eq(self, o: Any) -> E:
        return self.op("==", o)

    def cast(self, dtype: str) -> E:
        return E(ir("Cast", dt(dtype), self.node, None))


def var(name: str, dtype: str = "int32") -> E:
    return E(ir("Var", name, dt(dtype), None))


def call(dtype: str, name: str, *args: Any, **attrs: Any) -> E:
    nodes = [ir("StringImm", a, None) if isinstance(a, str) else expr(a) for a in args]
    return E(ir("Call", dt(dtype), name, nodes, attrs, None))


def select(condition: E, a: Any, b: Any) -> E:
    return E(ir("Select", condition.node, expr(a), expr(b), None))


class Buf:
    """A flat buffer: ``b[i]`` is a load, ``b.put(i, value)`` a store."""

    def __init__(
        self, name: str, dtype: str, size: Any, scope: str = "global", **attrs: Any
    ) -> None:
        self.dtype, self.size = dtype, size
        self.node = ir("Buffer", name, dt(dtype), [expr(size)], [], scope, attrs, None)

    def __getitem__(self, i: Any) -> E:
        return E(ir("Load", self.node, [expr(i)], None))

    def put(self, i: Any, value: Any, line: int = 0) -> Any:
        return ir("Store", self.node, [expr(i)], expr(value, self.dtype), span(line))

    def at(self, i: Any = 0) -> E:
        return call("handle", "address_of", self[i])

    def alloc(self) -> Any:
        return ir("Alloc", self.node, None)


def issue(body: Any, barrier: Buf, parity: Buf) -> Any:
    """What asks the TMA for a load that completes on ``barrier``."""
    return ir("IssueLoad", body, barrier.node, parity.node, None)


def span(line: int) -> Any:
    return ir("Span", "/home/user/kernel.py", line, 5, line, 20) if line else None


def seq(*stmts: Any) -> Any:
    return ir("Seq", list(stmts), None)


#: statements that order threads and engines
ORDERING = (
    "Arrive",
    "WaitParity",
    "Fence",
    "Barrier",
    "TmemAlloc",
    "CommitGroup",
    "WaitGroup",
    "MbarrierInit",
    "GridDependency",
)


def called(s: Any) -> str:
    """The function that a statement calls for its effect, or that it prints as; or nothing."""
    kind = str(type(s).__tvm_ffi_type_info__.type_key).rsplit(".", 1)[-1]
    if kind in ORDERING:
        return str(ir("Print", s)).partition("(")[0].strip()
    return str(getattr(s.value, "name", "")) if kind == "Evaluate" else ""


def evaluate(e: E, line: int = 0) -> Any:
    return ir("Evaluate", e.node, span(line))


def sync_threads(line: int = 0) -> Any:
    return ir("Barrier", 0, 0, span(line))


def fence_proxy_async() -> Any:
    return ir("Fence", 0, None)


def arrive_at(barrier: Buf, i: Any = 0) -> Any:
    """The thread arrives at an mbarrier."""
    return ir("Arrive", 0, barrier[i].node, None, None, None)


def commit(barrier: Buf) -> Any:
    """The tensor core arrives at an mbarrier."""
    return ir("Arrive", 3, barrier[0].node, None, None, None)


def alloc_tmem(slot: Buf, columns: int = 512) -> Any:
    """A warp takes columns of tensor memory."""
    return ir("TmemAlloc", False, False, slot.at().node, expr(columns, "uint32"), None)


def wait_parity(barrier: Buf, parity: Any = 0) -> Any:
    return ir("WaitParity", barrier[0].node, expr(parity), None)


def bind(v: E, value: Any) -> Any:
    return ir("Bind", v.node, expr(value), None)


def if_(condition: E, then: Any, otherwise: Any = None) -> Any:
    return ir("If", condition.node, then, otherwise, None)


def loop(v: E, extent: Any, body: Any, kind: str = "serial", line: int = 0) -> Any:
    index = ["serial", "unrolled", "vectorized", "pipelined"].index(kind)
    return ir("For", v.node, expr(0), expr(extent), index, body, {}, span(line))


def vector_loop(v: E, lanes: int, body: Any, vectors: Sequence[Buf], line: int = 0) -> Any:
    """Vectorized loop; every access of ``vectors`` that uses ``v`` is one vector."""
    notes = {"vectors": [b.node for b in vectors]}
    return ir("For", v.node, expr(0), expr(lanes), 2, body, notes, span(line))


@dataclass
class Kernel:
    """A function with one launch; ``bx`` and ``tx`` are its block and thread variables."""

    name: str = "main"
    threads: int = 128
    grid: Any = 4
    params: list[Any] = field(default_factory=list)
    bx: E = field(default_factory=lambda: var("bx"))
    tx: E = field(default_factory=lambda: var("tx"))

    def param(self, name: str, dtype: str, size: Any) -> Buf:
        self.params.append(Buf(name, dtype, size))
        return self.params[-1]

    def scalar(self, name: str, dtype: str) -> E:
        self.params.append(var(name, dtype))
        return self.params[-1]

    def func(self, *body: Any, **attrs: Any) -> Any:
        launch = ir(
            "KernelLaunch",
            [self.bx.node],
            [expr(self.grid)],
            [self.tx.node],
            [expr(self.threads)],
            attrs,
            seq(*body),
            None,
        )
        return ir("Func", self.name, [p.node for p in self.params], launch, {}, None)


def plan(func: Any, arch: str = "sm_90a") -> Any:
    return _ffi.get("transform.PlanSharedMemory")(func, arch)


def place_synchronization(func: Any, arch: str = "sm_90a") -> Any:
    return _ffi.get("transform.PlaceSynchronization")(plan(func, arch))


def codegen(func: Any, arch: str = "sm_90a", fast_math: bool = False) -> Any:
    func = place_synchronization(func, arch)
    return _ffi.get("codegen.Codegen")(func, arch, fast_math)


@functools.cache
def nvrtc(source: str, arch: str = "sm_90a", *options: str) -> str:
    """Compiles CUDA C++ to PTX; raises RuntimeError with NVRTC's log."""
    from cuda.bindings import nvrtc as api

    _, program = api.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    flags = [f"--gpu-architecture={arch}", "-std=c++20", f"-I{TEMPLATES}", *options]
    (status,) = api.nvrtcCompileProgram(program, len(flags), [f.encode() for f in flags])
    if status != api.nvrtcResult.NVRTC_SUCCESS:
        size = api.nvrtcGetProgramLogSize(program)[1]
        log = b" " * size
        api.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.decode() + source)
    size = api.nvrtcGetPTXSize(program)[1]
    ptx = b" " * size
    api.nvrtcGetPTX(program, ptx)
    return ptx.decode().rstrip("\0")


def ptx_of(func: Any, arch: str = "sm_90a", *options: str) -> str:
    return nvrtc(str(codegen(func, arch).lined_source), arch, *options)
