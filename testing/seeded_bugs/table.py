"""Bugs for `run.py`: each is one replaced piece of text in the compiler or the Python package.

A bug is found by its text, not by its file, so that files can be moved. A new row takes a mistake
that a person could make: a wrong bound, a forgotten wait, a swapped operand. `near` names the
folders of testing/python whose tests should see it; they run first.
"""

# size-exempt: table

from __future__ import annotations

from typing import NamedTuple


class Bug(NamedTuple):
    """A mistake to plant.

    Attributes:
        name: what is wrong.
        old: text that occurs once in src/ or tilelang/.
        new: text that takes its place.
        near: folders of testing/python, separated by spaces.
    """

    name: str
    old: str
    new: str
    near: str


BUGS = [
    # Python: the language
    Bug("loop with a step rounds its trips down",
        "trips = distance if stride == 1 else (distance + (stride - 1)) // stride",
        "trips = distance if stride == 1 else distance // stride",
        "language conformance"),
    Bug("loop with a negative step loses its last trip",
        "trips = (difference(first, plain(last)) + (-stride - 1)) // -stride",
        "trips = difference(first, plain(last)) // -stride",
        "language conformance"),
    Bug("loop with a step begins at 0",
        "value = index if stride == 1 else first + index * stride",
        "value = index if stride == 1 else index * stride",
        "language conformance"),
    Bug("T.transpose swaps nothing",
        "body = store(load(target.buffer, place_in(target, here[::-1])), value)",
        "body = store(load(target.buffer, place_in(target, here)), value)",
        "language conformance"),
    Bug("T.copy keeps no disable_tma",
        '"disable_tma": disable_tma or None,',
        '"disable_tma": None,',
        "language conformance transform"),
    Bug("T.fill of a dynamic region stores zero",
        "elementwise(\"T.fill\", target, lambda _: as_expr(value, dtype))",
        "elementwise(\"T.fill\", target, lambda _: as_expr(0, dtype))",
        "language conformance kernels"),
    Bug("T.reduce always clears",
        "reduce_type, axis, bool(clear), nan_propagate, allowed",
        "reduce_type, axis, True, nan_propagate, allowed",
        "language conformance kernels"),
    Bug("T.reduce drops nan_propagate",
        "reduce_type, axis, bool(clear), nan_propagate, allowed",
        "reduce_type, axis, bool(clear), False, allowed",
        "language conformance kernels"),
    Bug("bit reductions of floats are allowed",
        "if reduce_type in _BIT_OPERATIONS and (dtype.is_float or dst.dtype.is_float):",
        "if reduce_type in _BIT_OPERATIONS and dtype.is_float and dst.dtype.is_float:",
        "errors language conformance"),
    Bug("partial results need not divide their row",
        "return alike and isinstance(results[dim], int) and shape[dim] % results[dim] == 0",
        "return alike and isinstance(results[dim], int)",
        "errors language conformance kernels"),
    Bug("a block may have 1 thread more than the hardware",
        "if total > MAX_THREADS:",
        "if total > MAX_THREADS + 1:",
        "errors language"),
    Bug("a grid of a negative extent is launched",
        "if isinstance(constant, int) and constant < 0:",
        "if isinstance(constant, int) and constant < -1:",
        "errors language"),
    Bug("the second eviction policy stands for the third",
        "return _EVICTION_POLICIES[policy]",
        "return _EVICTION_POLICIES[min(policy, 1)]",
        "conformance language"),
    # Python: calls
    Bug("negated views are taken",
        "if arg.is_conj() or arg.is_neg():",
        "if arg.is_conj():",
        "runtime jit errors"),
    Bug("arrays in the other byte order are taken",
        "if not arg.dtype.isnative:",
        "if arg.dtype.isnative is None:",
        "runtime jit errors"),
    Bug("strides of NumPy arrays are bytes",
        "return shape, tuple(each // arg.itemsize for each in strides), dtype",
        "return shape, tuple(each for each in strides), dtype",
        "runtime jit"),
    Bug("the name of a cached kernel lacks its options",
        "parts = (nvrtc.version(), _headers_digest(), folder, *options, source)",
        "parts = (nvrtc.version(), _headers_digest(), folder, source)",
        "runtime"),
    Bug("a damaged entry of the cache is read",
        "if data[:4] != _MAGIC or _checksum(name, body) != digest:",
        "if data[:4] != _MAGIC:",
        "runtime"),
    # C++: arithmetic
    Bug("bits of a conjunction are bounded too tightly",
        "if (a.lo >= 0 && b.lo >= 0) return {0, std::min(a.hi, b.hi)};",
        "if (a.lo >= 0 && b.lo >= 0) return {0, std::min(a.hi, b.hi) - 1};",
        "arith"),
    Bug("a remainder is bounded too tightly",
        "Interval mod{0, d.hi == kPosInf ? kPosInf : d.hi - 1};",
        "Interval mod{0, d.hi == kPosInf ? kPosInf : d.hi - 2};",
        "arith"),
    Bug("a product of two different factors is not negative",
        "bool square = atom.factors.size() == 2 && atom.factors[0] == atom.factors[1];",
        "bool square = atom.factors.size() == 2;",
        "arith"),
    # C++: lowering
    Bug("an index that may be negative is not guarded",
        "if (!analyzer_.CanProveNonNegative(index)) {",
        "if (index.dtype().bits == 0) {",
        "transform kernels conformance"),
    Bug("the element behind the end is read",
        "condition = condition && ir::CastTo(wide, index) < ir::CastTo(wide, size);",
        "condition = condition && ir::CastTo(wide, index) <= ir::CastTo(wide, size);",
        "transform kernels conformance"),
    Bug("negative indices count from the last element but one",
        "Expr wrapped = index + ir::CastTo(index.dtype(), buffer->shape[d]);",
        "Expr wrapped = index + ir::CastTo(index.dtype(), buffer->shape[d]) - 1;",
        "language conformance transform"),
    Bug("a gemm adds to what a moved mask should have set",
        "Expr overwrites = ir::IntImm(ir::dtypes::kBool, 1);",
        "Expr overwrites = ir::IntImm(ir::dtypes::kBool, 0);",
        "transform sm100 schedule"),
    Bug("shuffles of a reduction skip every second lane",
        "for (int64_t step = digit.stride; step < digit.extent * digit.stride; step *= 2) {",
        "for (int64_t step = digit.stride; step < digit.extent * digit.stride; step *= 4) {",
        "kernels conformance"),
    Bug("the maximum of negative integers is 0",
        "return ir::Const(type, is_max ? -most - 1 : most);",
        "return ir::Const(type, is_max ? 0 : most);",
        "kernels conformance"),
    Bug("bitxor reduces by bitor",
        'if (name == "bitxor") return ir::MakeBinary(ir::BinaryOp::kBitXor, a, b);',
        'if (name == "bitxor") return ir::MakeBinary(ir::BinaryOp::kBitOr, a, b);',
        "kernels conformance"),
    Bug("a scan combines with the lanes behind it",
        'return ir::Call(reduction_.type, kind_.reverse ? "shfl_down" : "shfl_up",',
        'return ir::Call(reduction_.type, kind_.reverse ? "shfl_up" : "shfl_down",',
        "kernels conformance"),
    Bug("a scan forgets the warps before it",
        "Set(rows_, row, ir::Select(Int(warp) < warp_, both, At(rows_, row)));",
        "Set(rows_, row, ir::Select(Int(warp) + 1 < warp_, both, At(rows_, row)));",
        "kernels conformance"),
    # C++: memory, order, overlap
    Bug("two tiles share bytes at the moment both are used",
        "if (Follows(other) || other.Follows(*this)) return false;\n"
        "    return first <= other.last && other.first <= last;",
        "if (Follows(other) || other.Follows(*this)) return false;\n"
        "    return first < other.last && other.first < last;",
        "transform verify kernels"),
    Bug("a tile begins at an address that is not aligned",
        "offset = std::max(offset, RoundUp(rival->offset + rival->bytes, block.align));",
        "offset = std::max(offset, rival->offset + rival->bytes);",
        "transform conformance"),
    Bug("barrier 0 is given to some of the threads",
        "taken[0] = true;",
        "taken[0] = false;",
        "transform verify schedule"),
    Bug("the producer waits for a slot that was never filled",
        "return Wait(ring_->empty, slot, 1, span);",
        "return Wait(ring_->empty, slot, 0, span);",
        "schedule sm90"),
    Bug("no wait for stores to tensor memory before others learn of them",
        "void TensorOrder::Release(TensorAccesses* state, const Span& span) {\n"
        "  WaitForStores(state, span);",
        "void TensorOrder::Release(TensorAccesses* state, const Span& span) {",
        "sm100 verify"),
    Bug("a wait for work in flight sees only what begins later",
        "return (later.write || work.write) && later.begin < work.end && work.begin < later.end;",
        "return (later.write || work.write) && later.begin < work.end && work.begin < later.begin;",
        "verify sm100 sm90"),
    Bug("a pipelined loop drains one iteration too early",
        "Expr iteration = loop_->min + loop_->extent - Number(s - round);",
        "Expr iteration = loop_->min + loop_->extent - Number(s - round + 1);",
        "schedule"),
    Bug("D of 64 rows lies in the first 64 lanes",
        "if (m == 64) return {{{16, 1}, {4, 32}}, 1, 0, form.lane_alignment};",
        "if (m == 64) return {{{64, 1}}, 1, 0, form.lane_alignment};",
        "layout sm100"),
]  # fmt: skip
