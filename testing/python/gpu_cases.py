"""Kernels whose results on a GPU and on the emulator must be equal to the last bit.

A case is PTX for sm_90a with its launch and its arrays; the last array is the output. Only what the
PTX ISA defines exactly is used. ``python gpu_cases.py run FILE`` runs all cases on the GPU of this
machine and saves the outputs; the test compares them with the emulator.
"""

from __future__ import annotations

import itertools
import sys
from typing import NamedTuple

import gpu_cases_cluster as clusters
import gpu_cases_mbarrier as mbarriers
import numpy as np

HEADER = ".version 8.5\n.target sm_90a\n.address_size 64\n"
THREADS = 256
_LOADS = {1: "b8", 2: "b16", 4: "b32", 8: "b64"}


class TensorMap(NamedTuple):
    """A tiled map of array ``index`` for the first parameter; extents in the array's order."""

    index: int
    box: tuple[int, ...]
    swizzle: str | None


class Case(NamedTuple):
    name: str
    ptx: str
    grid: int
    block: int
    arrays: list[np.ndarray]
    tensor_map: TensorMap | None = None


def _values(rng: np.random.Generator, bits: int, kind: str) -> np.ndarray:
    """Random bits; floats half of the time near 1, integers of all magnitudes; extremes too."""
    v = rng.integers(0, 1 << 63, THREADS, dtype=np.uint64) * np.uint64(2) + rng.integers(
        0, 2, THREADS
    ).astype(np.uint64)
    mask = np.uint64((1 << bits) - 1)
    if kind in ("f16", "bf16", "f32", "f64"):
        mantissa = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}[kind]
        one = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000, "f64": 0x3FF << 52}[kind]
        sign = np.uint64(1 << (bits - 1))
        near = (v & np.uint64((1 << (mantissa + 3)) - 1)) + np.uint64(one) | v & sign
        v = np.where(rng.random(THREADS) < 0.6, near, v)
        exponent = mask >> np.uint64(1) ^ np.uint64((1 << mantissa) - 1)
        special = [0, int(sign), 1, (1 << mantissa) - 1, 1 << mantissa, int(exponent),
                   int(exponent | sign), int(exponent) | 1, int(mask)]  # fmt: skip
    else:
        v >>= rng.integers(0, bits, THREADS).astype(np.uint64)
        v = np.where(rng.random(THREADS) < 0.5, v, ~v)
        special = [0, 1, int(mask), 1 << (bits - 1), (1 << (bits - 1)) - 1]
    v[: len(special)] = rng.permutation(np.array(special, np.uint64))
    return (rng.permutation(v) & mask).astype(f"u{max(bits, 8) // 8}")


def _elementwise(name: str, body: str, kinds: list[str], out_bits: int, seed: int) -> Case:
    rng = np.random.default_rng([seed, len(body)])
    bits = [int("".join(c for c in k if c.isdigit()).removeprefix("0") or 0) for k in kinds]
    arrays = [_values(rng, b, k) for b, k in zip(bits, kinds, strict=True)]
    arrays.append(np.zeros(THREADS, f"u{out_bits // 8}"))
    text = HEADER + ".visible .entry k("
    text += ", ".join(f".param .u64 P{i}" for i in range(len(arrays))) + ") {\n"
    text += f" .reg .b64 %a<9>; .reg .b32 %i<9>; .reg .pred %p<9>;\n .reg .b{out_bits} %out;\n"
    text += " mov.u32 %i0, %tid.x; mov.u32 %i1, %ctaid.x; mad.lo.u32 %i0, %i1, 64, %i0;\n"
    for i, array in enumerate(arrays[:-1]):
        size = array.itemsize
        text += f" .reg .b{8 * size} %in{i};\n ld.param.u64 %a0, [P{i}];\n"
        text += f" mad.wide.u32 %a0, %i0, {size}, %a0; ld.global.b{8 * size} %in{i}, [%a0];\n"
    size = out_bits // 8
    text += f" mov.b{out_bits} %out, 0;\n {body}\n ld.param.u64 %a0, [P{len(arrays) - 1}];\n"
    text += f" mad.wide.u32 %a0, %i0, {size}, %a0; st.global.b{out_bits} [%a0], %out;\n ret;\n}}\n"
    return Case(name, text, THREADS // 64, 64, arrays)


def _opcode(opcode: str, kinds: str, out_bits: int, seed: int, prefix: str = "") -> Case:
    inputs = kinds.split()
    operands = ", ".join(f"%in{i}" for i in range(len(inputs)))
    return _elementwise(opcode, f"{prefix}{opcode} %out, {operands};", inputs, out_bits, seed)


def float_cases() -> list[Case]:
    cases = []
    for op, count in [("add", 2), ("sub", 2), ("mul", 2), ("fma", 3), ("div", 2)]:
        for mode in ("rn", "rz", "rm", "rp"):
            for extra in ("", ".ftz", ".sat", ".ftz.sat"):
                if op == "div" and "sat" in extra:
                    continue
                cases.append(_opcode(f"{op}.{mode}{extra}.f32", "f32 " * count, 32, len(cases)))
            cases.append(_opcode(f"{op}.{mode}.f64", "f64 " * count, 64, len(cases)))
    for op in ("rcp", "sqrt"):
        for mode in ("rn", "rz", "rm", "rp"):
            cases.append(_opcode(f"{op}.{mode}.f32", "f32", 32, len(cases)))
        cases.append(_opcode(f"{op}.rn.f64", "f64", 64, len(cases)))
    for op in ("add", "sub", "mul", "fma"):
        count = 3 if op == "fma" else 2
        for kind in ("f16", "bf16"):
            cases.append(_opcode(f"{op}.rn.{kind}", f"{kind} " * count, 16, len(cases)))
            cases.append(_opcode(f"{op}.rn.{kind}x2", "u32 " * count, 32, len(cases)))
        cases.append(_opcode(f"{op}.rn.sat.f16", "f16 " * count, 16, len(cases)))
    cases.append(_opcode("fma.rn.relu.f16", "f16 f16 f16", 16, 1))
    cases.append(_opcode("fma.rn.relu.bf16x2", "u32 u32 u32", 32, 2))
    for op in ("min", "max"):
        for kind in ("f32", "f64", "f16", "bf16"):
            bits = int(kind.lstrip("bf"))
            for extra in ("", ".NaN", ".NaN.xorsign.abs", ".ftz"):
                if (kind == "f64" and extra) or (extra == ".ftz" and kind == "bf16"):
                    continue
                if extra == ".ftz" and kind == "f16":
                    continue
                cases.append(_opcode(f"{op}{extra}.{kind}", f"{kind} {kind}", bits, len(cases)))
    for kind in ("f32", "f64", "f16", "bf16"):
        bits = int(kind.lstrip("bf"))
        cases.append(_opcode(f"neg.{kind}", kind, bits, 3))
        cases.append(_opcode(f"abs.{kind}", kind, bits, 4))
    cases.append(_opcode("neg.ftz.f32", "f32", 32, 5))
    cases.append(_opcode("abs.ftz.f32", "f32", 32, 5))
    return cases


def half_form_cases() -> list[Case]:
    cases = []

    def add(opcode: str, kinds: str, bits: int) -> None:
        cases.append(_opcode(opcode, kinds, bits, len(cases)))

    for op in ("add", "sub", "mul", "fma"):
        count = 3 if op == "fma" else 2
        for extra in (".ftz", ".ftz.sat"):
            add(f"{op}.rn{extra}.f16", "f16 " * count, 16)
            add(f"{op}.rn{extra}.f16x2", "u32 " * count, 32)
    for kind in ("f16", "bf16"):
        for extra in (".oob", ".oob.relu"):
            add(f"fma.rn{extra}.{kind}", f"{kind} " * 3, 16)
            add(f"fma.rn{extra}.{kind}x2", "u32 u32 u32", 32)
    for op in ("min.ftz", "max.ftz.NaN", "min.ftz.NaN.xorsign.abs"):
        add(f"{op}.f16", "f16 f16", 16)
        add(f"{op}.f16x2", "u32 u32", 32)
    for op in ("neg", "abs"):
        add(f"{op}.ftz.f16", "f16", 16)
        add(f"{op}.ftz.f16x2", "u32", 32)
    for mode in ("rz", "rm", "rp"):
        add(f"rcp.{mode}.f64", "f64", 64)
        add(f"sqrt.{mode}.f64", "f64", 64)
    for rule in ("eq", "ne", "lt", "ge", "equ", "neu", "leu", "gtu", "num", "nan"):
        for kind in ("f16", "bf16"):
            for target in ("u16", "s32", kind):
                bits = int(target.lstrip("usbf"))
                add(f"set.{rule}.{target}.{kind}", f"{kind} {kind}", bits)
            for target in ("u32", f"{kind}x2"):
                add(f"set.{rule}.{target}.{kind}x2", "u32 u32", 32)
        add(f"set.{rule}.ftz.u16.f16", "f16 f16", 16)
        add(f"set.{rule}.ftz.f16x2.f16x2", "u32 u32", 32)
        add(f"set.{rule}.f16.f32", "f32 f32", 16)
    add("mad24.hi.sat.s32", "s32 s32 s32", 32)
    return cases


def convert_cases() -> list[Case]:
    cases = []
    integers = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]
    floats = ["f16", "bf16", "f32", "f64"]

    def bits(kind: str) -> int:
        return int(kind.lstrip("bfus"))

    def add(opcode: str, source: str, target: str) -> None:
        width = max(16, bits(target))
        prefix = ""
        if bits(source) == 8:  # an 8-bit value in a 16-bit register
            source = "u16"
        cases.append(_opcode(opcode, source, width, len(cases), prefix))

    for source in integers:
        for target in integers:
            add(f"cvt.{target}.{source}", source, target)
            widens = bits(target) >= bits(source) and not (source[0] == "s" and target[0] == "u")
            same_sign = source[0] == target[0]
            if not widens or (bits(target) == bits(source) and not same_sign):
                add(f"cvt.sat.{target}.{source}", source, target)
        for target in ("f16", "f32", "f64"):
            for mode in ("rn", "rz", "rm", "rp"):
                add(f"cvt.{mode}.{target}.{source}", source, target)
    for source in ("f16", "f32", "f64"):
        for target in integers:
            for mode in ("rni", "rzi", "rmi", "rpi"):
                add(f"cvt.{mode}.{target}.{source}", source, target)
    for source in floats:
        for target in floats:
            if source == target and source != "bf16":
                for mode in ("rni", "rzi", "rmi", "rpi"):
                    add(f"cvt.{mode}.{target}.{source}", source, target)
                if source == "f32":
                    add("cvt.sat.f32.f32", source, target)
                    add("cvt.rni.ftz.f32.f32", source, target)
            elif bits(target) > bits(source):
                if not (source == "bf16" and target == "f64"):
                    add(f"cvt.{target}.{source}", source, target)
            elif bits(target) < bits(source):
                for mode in ("rn", "rz") if "16" in target else ("rn", "rz", "rm", "rp"):
                    if target == "bf16" and source == "f64":
                        continue
                    add(f"cvt.{mode}.{target}.{source}", source, target)
    add("cvt.rna.tf32.f32", "f32", "f32")
    add("cvt.rn.relu.bf16.f32", "f32", "bf16")
    add("cvt.rn.relu.f16.f32", "f32", "f16")
    for target in ("f16x2", "bf16x2"):
        for mode in ("rn", "rz", "rn.relu"):
            cases.append(_opcode(f"cvt.{mode}.{target}.f32", "f32 f32", 32, len(cases)))
    for target in ("e4m3x2", "e5m2x2"):
        for relu in ("", ".relu"):
            cases.append(_opcode(f"cvt.rn.satfinite{relu}.{target}.f32", "f32 f32", 16, len(cases)))
            cases.append(_opcode(f"cvt.rn.satfinite{relu}.{target}.f16x2", "u32", 16, len(cases)))
        cases.append(_opcode(f"cvt.rn.f16x2.{target}", "u16", 32, len(cases)))
    cases.append(_opcode("cvt.pack.sat.u8.s32.b32", "s32 s32 u32", 32, 1))
    cases.append(_opcode("cvt.pack.sat.s16.s32", "s32 s32", 32, 2))
    return cases


def integer_cases() -> list[Case]:
    cases = []
    for kind in ("s", "u"):
        for n in (16, 32, 64):
            t, w = f"{kind}{n}", f"{kind}{2 * n}"
            for op in ("add", "sub", "mul.lo", "mul.hi", "min", "max", "div", "rem"):
                cases.append(_opcode(f"{op}.{t}", f"{t} {t}", n, len(cases)))
            for op in ("mad.lo", "mad.hi", "sad"):
                cases.append(_opcode(f"{op}.{t}", f"{t} {t} {t}", n, len(cases)))
            cases.append(_opcode(f"shr.{t}", f"{t} u32", n, len(cases)))
            if n < 64:
                cases.append(_opcode(f"mul.wide.{t}", f"{t} {t}", 2 * n, len(cases)))
                cases.append(_opcode(f"mad.wide.{t}", f"{t} {t} {w}", 2 * n, len(cases)))
            if n > 16:
                cases.append(_opcode(f"bfe.{t}", f"{t} u32 u32", n, len(cases)))
                cases.append(_opcode(f"bfind.{t}", t, 32, len(cases)))
                cases.append(_opcode(f"bfind.shiftamt.{t}", t, 32, len(cases)))
    for n in (32, 64):
        cases.append(_opcode(f"popc.b{n}", f"u{n}", 32, n))
        cases.append(_opcode(f"clz.b{n}", f"u{n}", 32, n))
        cases.append(_opcode(f"brev.b{n}", f"u{n}", n, n))
        cases.append(_opcode(f"bfi.b{n}", f"u{n} u{n} u32 u32", n, n))
        cases.append(_opcode(f"shl.b{n}", f"u{n} u32", n, n))
    for op in ("shf.l.wrap", "shf.r.wrap", "shf.l.clamp", "shf.r.clamp", "prmt"):
        cases.append(_opcode(f"{op}.b32", "u32 u32 s32", 32, len(cases)))
    for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        cases.append(_opcode(f"prmt.b32.{mode}", "u32 u32 u32", 32, len(cases)))
    for a in "us":
        for b in "us":
            cases.append(_opcode(f"dp4a.{a}32.{b}32", "u32 u32 u32", 32, len(cases)))
            cases.append(_opcode(f"dp2a.lo.{a}32.{b}32", "u32 u32 u32", 32, len(cases)))
    for op in ("bmsk.clamp.b32", "bmsk.wrap.b32", "szext.clamp.s32", "szext.wrap.u32"):
        cases.append(_opcode(op, "u32 u32", 32, len(cases)))
    for op in ("add.sat.s32", "sub.sat.s32", "mul24.lo.s32", "mul24.hi.u32", "max.relu.s32"):
        cases.append(_opcode(op, "s32 s32", 32, len(cases)))
    for table in (0x1B, 0x96, 0xCA, 0xE8, 0x6D):
        body = f"lop3.b32 %out, %in0, %in1, %in2, {table};"
        cases.append(_elementwise(f"lop3 {table}", body, ["u32"] * 3, 32, table))
    return cases + carry_cases()


def carry_cases() -> list[Case]:
    """Each instruction that sets CC.CF before each that uses it, and one between them."""
    cases = []
    for n in (32, 64):
        product = "%in0, %in1, %in2"
        sets = {"add": "%in0, %in1", "sub": "%in0, %in1", "mad.lo": product, "mad.hi": product}
        uses = {"addc": "%in2, %in3", "subc": "%in2, %in3",
                "madc.lo": "%in1, %in2, %in3", "madc.hi": "%in1, %in2, %in3"}  # fmt: skip
        for first, second in itertools.product(sets, uses):
            head = f".reg .b{n} %x; {first}.cc.u{n} %x, {sets[first]};"
            body = f"{head} {second}.u{n} %out, {uses[second]};"
            cases.append(_elementwise(f"{first} {second} {n}", body, [f"u{n}"] * 4, n, len(cases)))
            body = f"{head} {second}.cc.u{n} %out, {uses[second]}; addc.u{n} %out, %out, %x;"
            name = f"{first} {second} addc {n}"
            cases.append(_elementwise(name, body, [f"u{n}"] * 4, n, len(cases)))
    return cases


def warp_cases() -> list[Case]:
    bodies = {
        f"shfl.{mode} {clamp}": f"shfl.sync.{mode}.b32 %out|%p0, %in0, %in1, {clamp}, -1;"
        "@%p0 xor.b32 %out, %out, 0x5a5a;"
        for mode, clamps in {"up": (0, 0x1800, 0x1000), "down": (31, 0x181F, 0x100F),
                             "bfly": (31, 0x181F), "idx": (31, 0x181F, 0x1C1F)}.items()
        for clamp in clamps
    }  # fmt: skip
    for kind in ("s32", "u32"):
        for op in ("min", "max"):
            bodies[f"redux.{op}.{kind}"] = f"redux.sync.{op}.{kind} %out, %in0, -1;"
    for op in ("and", "or", "xor"):
        bodies[f"redux.{op}"] = f"redux.sync.{op}.b32 %out, %in0, -1;"
    bodies["redux.add"] = "redux.sync.add.u32 %out, %in0, -1;"
    bodies["vote"] = (
        "setp.gt.u32 %p0, %in0, %in1; vote.sync.ballot.b32 %out, %p0, -1;"
        "vote.sync.any.pred %p1, %p0, -1; vote.sync.all.pred %p2, !%p0, -1;"
        "@%p1 add.u32 %out, %out, 1; @%p2 add.u32 %out, %out, 2;"
    )
    bodies["match.any"] = "and.b32 %i2, %in0, 3; match.any.sync.b32 %out, %i2, -1;"
    bodies["match.all"] = (
        "and.b32 %i2, %in0, 0; match.all.sync.b32 %out|%p0, %i2, -1; @%p0 add.u32 %out, %out, 1;"
    )
    bodies["elect"] = "elect.sync %out|%p0, -1; @%p0 add.u32 %out, %out, 100;"
    return [
        _elementwise(name, body, ["u32", "u32"], 32, i)
        for i, (name, body) in enumerate(bodies.items())
    ]


_RANDOM_OPS = [
    "add.u32 {d}, {a}, {b};", "sub.u32 {d}, {a}, {b};", "mul.lo.u32 {d}, {a}, {b};",
    "mad.lo.s32 {d}, {a}, {b}, {c};", "xor.b32 {d}, {a}, {b};", "and.b32 {d}, {a}, {b};",
    "or.b32 {d}, {a}, {b};", "shl.b32 {d}, {a}, {n};", "shr.s32 {d}, {a}, {n};",
    "shf.l.wrap.b32 {d}, {a}, {b}, {c};", "min.s32 {d}, {a}, {b};", "max.u32 {d}, {a}, {b};",
    "mul.hi.u32 {d}, {a}, {b};", "popc.b32 {d}, {a};", "prmt.b32 {d}, {a}, {b}, {c};",
    "bfe.u32 {d}, {a}, {n}, 9;", "selp.b32 {d}, {a}, {b}, %p1;",
    "mov.b64 %a4, {{{a}, {b}}}; cvt.u32.u64 {d}, %a4;",
    "setp.lt.s32 %p1, {a}, {b};", "setp.ne.and.u32 %p1|%p2, {a}, {b}, %p2;",
    "@%p1 add.u32 {d}, {a}, {n};", "@!%p2 xor.b32 {d}, {d}, {b};",
    "cvt.rn.f32.s32 %f0, {a}; fma.rn.f32 %f1, %f0, %f1, 0f3F000000; mov.b32 {d}, %f1;",
    "cvt.rn.bf16x2.f32 {d}, %f0, %f1;", "div.rn.f32 %f1, %f0, 0f40490FDB;",
    "add.rn.f32 %f0, %f0, %f1;",
]  # fmt: skip
# Additions commute, so that their order does not matter.
_SHARED_OP = (
    "and.b32 %i3, {a}, 63; shl.b32 %i3, %i3, 2; add.u32 %i3, %i3, %i4;"
    "atom.shared.add.u32 %i5, [%i3], {b};"
)
_CONVERGED_OPS = [
    "shfl.sync.bfly.b32 {d}, {a}, {n}, 31, -1;", "shfl.sync.idx.b32 {d}, {a}, {b}, 31, -1;",
    "vote.sync.ballot.b32 {d}, %p1, -1;", "redux.sync.add.u32 {d}, {a}, -1;",
    # each thread writes its own word, then reads a neighbour's
    "bar.sync 0; st.shared.u32 [%i6+256], {a}; bar.sync 0; xor.b32 %i3, %i6, 36;"
    "sub.u32 %i3, %i3, %i4; and.b32 %i3, %i3, 255; add.u32 %i3, %i3, %i4;"
    "ld.shared.u32 {d}, [%i3+256];",
]  # fmt: skip


def random_program(seed: int, size: int = 30) -> Case:
    """Arithmetic, divergent branches and bounded loops, shuffles, shared memory, atomics."""
    rng = np.random.default_rng([7, seed])
    lines: list[str] = []
    labels = iter(range(1000))

    def operands() -> dict[str, str]:
        picked = {key: f"%r{rng.integers(8)}" for key in "dabc"}
        return picked | {"n": str(rng.integers(32))}

    def block(size: int, depth: int) -> None:
        for _ in range(size):
            choice = rng.random()
            if choice < 0.12 and depth < 3:
                label = f"B{next(labels)}"
                lines.append(
                    f"setp.gt.s32 %p{3 + depth}, %r{rng.integers(8)}, %r{rng.integers(8)};"
                )
                lines.append(f"@%p{3 + depth} bra {label};")
                block(int(rng.integers(1, 5)), depth + 1)
                lines.append(f"{label}:")
            elif choice < 0.18 and depth < 2:
                label, counter = f"L{next(labels)}", f"%c{depth}"
                lines.append(f"and.b32 {counter}, %r{rng.integers(8)}, 7;\n{label}:")
                block(int(rng.integers(1, 4)), depth + 1)
                lines.append(f"sub.s32 {counter}, {counter}, 1;")
                lines.append(
                    f"setp.gt.s32 %p{6 + depth}, {counter}, 0; @%p{6 + depth} bra {label};"
                )
            elif choice < 0.24:
                lines.append(_SHARED_OP.format(**operands()))
            elif choice < 0.36 and depth == 0:
                lines.append("bar.warp.sync -1;")
                lines.append(str(rng.choice(_CONVERGED_OPS)).format(**operands()))
            else:
                lines.append(str(rng.choice(_RANDOM_OPS)).format(**operands()))

    block(size, 0)
    body = (
        ".reg .b32 %r<9>; .reg .b32 %c<4>; .reg .f32 %f<4>; .shared .align 16 .b8 sm[512];"
        "mov.u32 %i4, sm; mov.u32 %i2, %tid.x; shl.b32 %i6, %i2, 2; add.u32 %i6, %i6, %i4;"
        "st.shared.u32 [%i6], %i2; st.shared.u32 [%i6+256], %i2; bar.sync 0;"
        "cvt.rn.f32.u32 %f0, %in0; mov.f32 %f1, 0f3F8CCCCD;"
        "setp.lt.u32 %p1, %in0, %in1; setp.lt.s32 %p2, %in0, %in1;"
        + "".join(f"mad.lo.u32 %r{i}, %in0, {i + 3}, %in1;" for i in range(8))
        + "\n".join(lines)
        + "\nbar.sync 0; ld.shared.u32 %out, [%i6];"
        + "".join(f"mad.lo.u32 %out, %out, 31, %r{i};" for i in range(8))
        + "mov.b32 %r0, %f1; xor.b32 %out, %out, %r0;"
    )
    return _elementwise(f"random {seed}", body, ["u32", "u32"], 32, seed)


def tensor_copy_cases() -> list[Case]:
    """One bulk tensor load, partly out of bounds; shared memory is copied out as it lies."""
    cases = []
    rng = np.random.default_rng(5)
    for swizzle, inner in [(None, 24), ("32B", 16), ("64B", 32), ("128B", 64)]:
        for rank in (2, 3):
            shape = (9, 37, 3 * inner)[3 - rank :]
            box = (3, 11, inner)[3 - rank :]
            start = (7, 30, 2 * inner + 8)[3 - rank :]
            source = rng.integers(0, 1 << 16, shape).astype(np.uint16)
            size = int(np.prod(box)) * 2
            padded = -(-size // 512) * 512
            out = np.zeros(padded // 4, np.uint32)
            coordinates = ", ".join(f"%x{i}" for i in range(rank))
            moves = "".join(f"mov.u32 %x{i}, {v};" for i, v in enumerate(reversed(start)))
            copy = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile"
            copy += ".mbarrier::complete_tx::bytes"
            text = (
                HEADER
                + f"""
.visible .entry k(.param .align 64 .b8 M[128], .param .u64 P0, .param .u64 P1) {{
 .reg .b32 %x<9>; .reg .b32 %i<9>; .reg .b64 %a<9>; .reg .pred %p<4>;
 .shared .align 1024 .b8 sm[{padded}]; .shared .align 8 .b64 bar;
 mov.u32 %i0, %tid.x; mov.u32 %i1, sm; mov.u32 %i2, bar; setp.ne.u32 %p0, %i0, 0; {moves}
 mov.u32 %i3, %i0;
Z: shl.b32 %i4, %i3, 2; add.u32 %i4, %i4, %i1; st.shared.u32 [%i4], 0xABCD1234;
 add.u32 %i3, %i3, 64; setp.lt.u32 %p1, %i3, {padded // 4}; @%p1 bra Z;
 fence.proxy.async.shared::cta;
 @%p0 bra W;
 mbarrier.init.shared::cta.b64 [%i2], 1; fence.mbarrier_init.release.cluster;
W: bar.sync 0;
 @%p0 bra V;
 mov.u64 %a0, M; cvta.param.u64 %a0, %a0;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%i2], {size};
 {copy} [%i1], [%a0, {{{coordinates}}}], [%i2];
V: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%i2], 0; @!%p2 bra V;
 ld.param.u64 %a1, [P1]; mov.u32 %i3, %i0;
C: shl.b32 %i4, %i3, 2; add.u32 %i5, %i4, %i1; ld.shared.u32 %i6, [%i5]; cvt.u64.u32 %a2, %i4;
 add.u64 %a2, %a2, %a1; st.global.u32 [%a2], %i6;
 add.u32 %i3, %i3, 64; setp.lt.u32 %p1, %i3, {padded // 4}; @%p1 bra C;
 ret;
}}"""
            )
            name = f"bulk tensor {rank}d swizzle {swizzle}"
            cases.append(Case(name, text, 1, 64, [source, out], TensorMap(0, box, swizzle)))
    return cases


def mbarrier_cases() -> list[Case]:
    """Tokens, parities, counts and transactions of one thread; exchanges between threads."""
    bodies = {"one thread": mbarriers.single_thread_body, "phases": mbarriers.phases_body}
    return [
        _elementwise(f"mbarrier {name} {seed}", body(seed), ["u32"], 32, seed)
        for name, body in bodies.items()
        for seed in range(30)
    ] + [_elementwise("mbarrier one thread, bits", mbarriers.parity_bits_body(), ["u32"], 32, 0)]


def cluster_cases() -> list[Case]:
    """Random exchanges between the CTAs of clusters."""
    cases = []
    for seed in range(120):
        text, ctas, tensor = clusters.program(seed)
        rng = np.random.default_rng(seed)
        shape = clusters.TENSOR if tensor else (512,)
        source = rng.integers(0, 1 << 16, shape).astype(np.uint16)
        words = rng.integers(0, 1 << 32, (ctas, clusters.THREADS), dtype=np.uint32)
        tensor_map = TensorMap(0, clusters.BOX, None) if tensor else None
        arrays = [source, words, np.zeros_like(words)]
        name = f"cluster {seed}"
        cases.append(Case(name, HEADER + text, ctas, clusters.THREADS, arrays, tensor_map))
    return cases


def all_cases() -> list[Case]:
    """Every case; the same on every machine."""
    return [
        *integer_cases(), *float_cases(), *half_form_cases(), *convert_cases(), *warp_cases(),
        *tensor_copy_cases(), *mbarrier_cases(), *cluster_cases(),
        *(random_program(seed) for seed in range(250)),
    ]  # fmt: skip


class Gpu:
    """The CUDA driver, as much of it as running a case needs."""

    def __init__(self) -> None:
        from cuda.bindings import driver

        self.driver = driver
        self._call(driver.cuInit(0))
        device = self._call(driver.cuDeviceGet(0))
        self._call(driver.cuCtxSetCurrent(self._call(driver.cuDevicePrimaryCtxRetain(device))))

    @staticmethod
    def _call(result):
        error, *values = result
        if int(error) != 0:
            raise RuntimeError(str(error))
        return values[0] if values else None

    def _tensor_map(self, spec: TensorMap, array: np.ndarray, pointer: int):
        d = self.driver
        swizzle = {None: "NONE", "32B": "32B", "64B": "64B", "128B": "128B"}[spec.swizzle]
        dims = [d.cuuint64_t(n) for n in reversed(array.shape)]
        strides = [d.cuuint64_t(n) for n in reversed(array.strides[:-1])]
        box = [d.cuuint32_t(n) for n in reversed(spec.box)]
        ones = [d.cuuint32_t(1)] * array.ndim
        return self._call(d.cuTensorMapEncodeTiled(
            d.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_UINT16, array.ndim, pointer, dims,
            strides, box, ones, d.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(d.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
            d.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
            d.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        ))  # fmt: skip

    def run(self, case: Case) -> np.ndarray:
        """Returns the output of a case; raises RuntimeError if the driver refuses it."""
        d = self.driver
        module = self._call(d.cuModuleLoadData(case.ptx.encode() + b"\0"))
        kernel = self._call(d.cuModuleGetFunction(module, b"k"))
        pointers = [int(self._call(d.cuMemAlloc(a.nbytes))) for a in case.arrays]
        for pointer, array in zip(pointers, case.arrays, strict=True):
            self._call(d.cuMemcpyHtoD(pointer, array, array.nbytes))
        values = [np.array([p], np.uint64) for p in pointers]
        if case.tensor_map is not None:
            spec = case.tensor_map
            encoded = self._tensor_map(spec, case.arrays[spec.index], pointers[spec.index])
            addresses = [int(encoded.getPtr())]
        else:
            addresses = []
        addresses += [v.ctypes.data for v in values]
        table = np.array(addresses, np.uint64)
        self._call(d.cuLaunchKernel(
            kernel, case.grid, 1, 1, case.block, 1, 1, 0, 0, table.ctypes.data, 0
        ))  # fmt: skip
        self._call(d.cuCtxSynchronize())
        out = np.empty_like(case.arrays[-1])
        self._call(d.cuMemcpyDtoH(out, pointers[-1], out.nbytes))
        for pointer in pointers:
            self._call(d.cuMemFree(pointer))
        self._call(d.cuModuleUnload(module))
        return out


def main() -> None:
    gpu = Gpu()
    results, refused = {}, []
    for case in all_cases():
        try:
            results[case.name] = gpu.run(case)
        except RuntimeError as error:
            refused.append(f"{case.name}: {error}")
    np.savez_compressed(sys.argv[2], **results)
    print(f"{len(results)} cases ran, {len(refused)} were refused", *refused, sep="\n")


if __name__ == "__main__":
    main()
