"""Register instructions: latency of a chain, and the issue interval of independent chains.

A row is a name, the registers' letter (``f`` f32, ``r`` b32, ``g`` f64) and the PTX of one link
of the chain: ``x`` is its register, ``y`` a second one of the same chain, ``h`` a 16-bit one.
Chains are not foldable: ptxas computes none of them in advance.
"""

from __future__ import annotations

from collections.abc import Iterator

from program import Probe, text

CHAIN = 64
CHAINS = 8

ROWS = [
    ("fma.f32", "f", "fma.rn.f32 {x}, {x}, %fa, %fb;"),
    ("add.f32", "f", "add.rn.f32 {x}, {x}, %fa;"),
    ("mul.f32", "f", "mul.rn.f32 {x}, {x}, %fa;"),
    ("max.f32", "f", "max.f32 {x}, {x}, {y}; max.f32 {y}, {y}, %fa; neg.f32 {y}, {y};"),
    ("fma.f16x2", "r", "fma.rn.f16x2 {x}, {x}, %one, %one;"),
    ("add.f16x2", "r", "add.rn.f16x2 {x}, {x}, %one;"),
    ("fma.bf16x2", "r", "fma.rn.bf16x2 {x}, {x}, %one, %one;"),
    ("add.u32", "r", "add.u32 {x}, {x}, {y}; add.u32 {y}, {y}, {x};"),
    ("mad.lo.u32", "r", "mad.lo.u32 {x}, {x}, {x}, %one;"),
    ("mul.hi.u32", "r", "mul.hi.u32 {x}, {x}, %one;"),
    ("mul.wide.u32", "r", "mul.wide.u32 {d}, {x}, %one; cvt.u32.u64 {x}, {d};"),
    ("xor+shift", "r", "shr.u32 {y}, {x}, 1; xor.b32 {x}, {y}, %one;"),
    ("shf.l.wrap", "r", "shf.l.wrap.b32 {x}, {x}, %one, %one;"),
    ("lop3+add", "r", "lop3.b32 {x}, {x}, %one, %thread, 0xe8; add.u32 {x}, {x}, %thread;"),
    ("prmt", "r", "prmt.b32 {x}, {x}, %one, {x};"),
    ("setp+selp", "r", "setp.gt.u32 %p2, {x}, %one; selp.b32 {x}, %thread, {x}, %p2;"),
    ("popc", "r", "popc.b32 {x}, {x};"),
    ("clz", "r", "clz.b32 {x}, {x};"),
    ("brev", "r", "brev.b32 {x}, {x};"),
    ("bfind", "r", "bfind.u32 {x}, {x};"),
    ("dp4a", "r", "dp4a.u32.u32 {x}, {x}, %one, {x};"),
    ("min.s32", "r", "min.s32 {x}, {x}, %thread; add.s32 {x}, {x}, {x};"),
    ("ex2.f32", "f", "ex2.approx.ftz.f32 {x}, {x};"),
    ("lg2.f32", "f", "lg2.approx.ftz.f32 {x}, {x};"),
    ("rcp.f32+add", "f", "rcp.approx.ftz.f32 {x}, {x}; add.f32 {x}, {x}, %fa;"),
    ("rsqrt.f32", "f", "rsqrt.approx.ftz.f32 {x}, {x};"),
    ("sqrt.f32", "f", "sqrt.approx.ftz.f32 {x}, {x};"),
    ("sin.f32", "f", "sin.approx.ftz.f32 {x}, {x};"),
    ("tanh.f32", "f", "tanh.approx.f32 {x}, {x};"),
    ("ex2.f32 (denormals)", "f", "ex2.approx.f32 {x}, {x};"),
    ("ex2.f16x2", "r", "ex2.approx.f16x2 {x}, {x};"),
    ("tanh.f16x2", "r", "tanh.approx.f16x2 {x}, {x};"),
    ("rcp.rn.f32", "f", "rcp.rn.f32 {x}, {x};"),
    ("div.rn.f32", "f", "div.rn.f32 {x}, {x}, %fa;"),
    ("div.full.f32", "f", "div.full.f32 {x}, {x}, %fa;"),
    ("cvt.rn.bf16x2.f32", "f", "cvt.rn.bf16x2.f32 {r}, {x}, %fa; mov.b32 {x}, {r};"),
    ("cvt.rn.f16x2.f32", "f", "cvt.rn.f16x2.f32 {r}, {x}, %fa; mov.b32 {x}, {r};"),
    ("cvt.f32.f16", "f",
     "mov.b32 {r}, {x}; mov.b32 {{{h}, _}}, {r}; cvt.f32.f16 {x}, {h};"),
    ("cvt.rn.f16.f32+cvt.f32.f16", "f", "cvt.rn.f16.f32 {h}, {x}; cvt.f32.f16 {x}, {h};"),
    ("cvt.rni.s32.f32", "f", "cvt.rni.s32.f32 {r}, {x}; mov.b32 {x}, {r};"),
    ("cvt.rn.f32.s32", "f", "mov.b32 {r}, {x}; cvt.rn.f32.s32 {x}, {r};"),
    ("cvt.e4m3x2.f32", "f",
     "cvt.rn.satfinite.e4m3x2.f32 {h}, {x}, %fa; mov.b32 {r}, {{{h}, {h}}}; mov.b32 {x}, {r};"),
    ("fma.f64", "g", "fma.rn.f64 {x}, {x}, %ga, %gb;"),
    ("add.f64", "g", "add.rn.f64 {x}, {x}, %ga;"),
    ("shfl.bfly", "r", "shfl.sync.bfly.b32 {x}, {x}, 1, 31, -1;"),
    ("vote.ballot", "r",
     "setp.ne.u32 %p2, {x}, %one; vote.sync.ballot.b32 {x}, %p2, -1;"),
    ("redux.add", "r", "redux.sync.add.u32 {x}, {x}, -1;"),
    ("bar.warp.sync", "r", "bar.warp.sync -1;"),
]  # fmt: skip


def _link(row: str, letter: str, chain: int) -> str:
    base = 8 + 2 * chain
    registers = {
        "x": f"%{letter}{base}", "y": f"%{letter}{base + 1}", "h": f"%h{base}",
        "r": f"%r{600 + chain}", "d": f"%d{base}",
    }  # fmt: skip
    return row.format(**registers)


def _program(letter: str, row: str, chains: int) -> str:
    move = {"f": "mov.f32 {}, %fa;", "r": "add.u32 {}, %thread, 77;", "g": "mov.f64 {}, %ga;"}[
        letter
    ]
    used = [f"%{letter}{8 + i}" for i in range(2 * chains)]
    setup = "\n".join("    " + move.format(register) for register in used)
    body = [_link(row, letter, i % chains) for i in range(CHAIN)]
    if letter == "r":
        return text(body, setup, sinks=used)
    narrow = "mov.b32 {r}, {x};" if letter == "f" else "cvt.rn.f32.f64 %f1, {x}; mov.b32 {r}, %f1;"
    after = "\n".join("    " + _link(narrow, letter, i) for i in range(chains))
    return text(body, setup, sinks=[f"%r{600 + i}" for i in range(chains)]).replace(
        "    xor.b32 %sink", after + "\n    xor.b32 %sink", 1
    )


def probes() -> Iterator[Probe]:
    """Latency of one warp and interval of 16 warps, for each row."""
    for name, letter, row in ROWS:
        one, many = _program(letter, row, 1), _program(letter, row, CHAINS)
        yield Probe(f"{name} latency", "clk/link", one, CHAIN)
        yield Probe(f"{name} interval", "clk/link/sub-core", many, CHAIN, warps=16, how="interval")
