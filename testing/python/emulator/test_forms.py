"""Which modifiers, types, registers and constants go together: what ptxas refuses is refused here,
what it accepts is accepted. Both lists are judged by ptxas itself where it is installed."""

import itertools
import re
import subprocess

import pytest

from tilelang.emulator import Device, EmulatorError
from tilelang.runtime.toolchain import ToolNotFoundError, find_ptxas

REGISTERS = [
    "b8",
    "b16",
    "u16",
    "s16",
    "f16",
    "b32",
    "u32",
    "s32",
    "f32",
    "f16x2",
    "b64",
    "u64",
    "s64",
    "f64",
    "b128",
    "pred",
]
HEAD = (
    ".version 8.8\n.target sm_100a\n.address_size 64\n.global .b8 gv[16];\n"
    ".visible .entry k(.param .u64 p) {\n"
    + " ".join(f".reg .{t} {t}_<9>;" for t in REGISTERS)
    + " .shared .align 16 .b8 sm[64];\n"
)
FIRST_LINE = HEAD.count("\n") + 1


def module(lines):
    return HEAD + "\n".join(lines) + "\nret;\n}\n"


def errors_of_ptxas(lines, folder):
    """Index of each line that ptxas refuses, with its message. Errors of one kind hide those of
    later passes, so what was refused is taken out until the rest is accepted."""
    try:
        tool = find_ptxas()
    except ToolNotFoundError as error:
        pytest.skip(str(error))
    refused = {}
    while len(refused) < len(lines):
        text = module(["" if i in refused else line for i, line in enumerate(lines)])
        (folder / "k.ptx").write_text(text)
        command = [tool, "-arch=sm_100a", "-o", folder / "k.cubin", folder / "k.ptx"]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode == 0:
            break
        found = re.findall(r"line (\d+); (?:error|fatal)\s*: (.*)", run.stderr + run.stdout)
        new = {int(line) - FIRST_LINE: message for line, message in found}
        assert new.keys() - refused.keys(), run.stderr + run.stdout
        refused.update(new)
    return refused


def product(template, **names):
    """The template with every combination of the names' words."""
    words = [value.split() for value in names.values()]
    return [
        template.format(**dict(zip(names, choice, strict=True)))
        for choice in itertools.product(*words)
    ]


ACCEPTED = [
    # a register of another type of the same size, as bits or as an integer
    *product("add.u32 {a}_0, {b}_1, b32_2;", a="b32 u32 s32 f16x2", b="b32 u32 s32 f16x2"),
    *product("add.f32 {a}_0, {b}_1, b32_2;", a="b32 f32", b="b32 f32"),
    *product("and.b32 {a}_0, b32_1, {a}_2;", a="b32 u32 s32 f32 f16x2"),
    *product("mov.b64 {a}_0, {b}_1;", a="b64 u64 s64 f64", b="b64 u64 s64 f64"),
    *product("fma.rn.f16 {a}_0, {a}_1, {a}_2, {a}_3;", a="b16 f16"),
    "add.bf16 b16_0, b16_1, b16_2;",
    "add.f32x2 b64_0, b64_1, b64_2;",
    # ld, st and cvt take wider registers
    *product("ld.global.{t} {a}_0, [b64_1];", t="u8 s8 b8", a="b8 b16 s16 b32 u32 u64 b64"),
    *product("st.global.b16 [b64_1], {a}_0;", a="b16 u16 f16 b32 f32 f64"),
    *product("ld.global.f32 {a}_0, [b64_1];", a="f32 b32 b64"),
    *product("cvt.u16.u32 {a}_0, {b}_1;", a="u16 b32 s64", b="u32 b64"),
    "ld.global.v2.b32 {b64_0, b64_1}, [b64_2];",
    # constants
    *product("add.{t} b{b}_0, b{b}_1, {c};", t="u32 s32", b="32", c="1 -1 0x80000000 WARP_SZ"),
    *product("mul.f32 f32_0, f32_1, {c};", c="1.5 0f3f800000 0d3ff0000000000000"),
    *product("mov.b64 b64_0, {c};", c="1 1.5 0d3ff0000000000000 sm gv p %clock64"),
    *product("mov.u32 u32_0, {c};", c="7 sm %tid.x %lanemask_lt WARP_SZ"),
    "or.b32 b32_0, b32_1, 0f3f800000;",
    "mov.pred pred_0, 1;",
    "selp.f32 f32_0, 0f00000000, f32_1, !pred_0;",
    # modifiers and types
    *product("add{r}{z}.f32 f32_0, f32_1, f32_2;", r=".rn .rz .rm .rp", z=".ftz .sat .ftz.sat"),
    *product("fma.rn{m}.f16x2 b32_0, b32_1, b32_2, b32_3;", m=".sat .relu"),
    *product("setp.{c}.u32 pred_0, u32_1, u32_2;", c="eq ne lt le gt ge lo ls hi hs"),
    *product("setp.{c}.f32 pred_0|pred_1, f32_1, f32_2;", c="eq equ ltu num nan"),
    *product("cvt.{r}.f16.f32 b16_0, f32_0;", r="rn rz rn.relu rn.ftz rn.satfinite"),
    *product("cvt.{r}.s32.f32 b32_0, f32_0;", r="rni rzi.ftz rmi.sat rpi.ftz.sat"),
    "cvt.sat.u8.s32 b16_0, s32_1;",
    "cvt.rna.tf32.f32 b32_0, f32_1;",
    "add.f32.rn f32_0, f32_1, f32_2;",
    *product("ld.global{c}.b32 b32_0, [b64_1];", c=".ca .cg .nc .L1::evict_last .nc.L2::128B"),
    *product("ld.{o}.global.b32 b32_0, [b64_1];", o="volatile relaxed.gpu acquire.sys weak"),
    "ld.global.L2::evict_last.v8.f32 {f32_0,f32_1,f32_2,f32_3,f32_4,f32_5,f32_6,f32_7}, [b64_1];",
    "st.global.L2::cache_hint.b32 [b64_0], b32_1, b64_2;",
    *product("atom.global.add.u32 u32_0, [b64_1], {r}_1;", r="u32 b32"),
    "atom.global.add.noftz.f16x2 b32_0, [b64_1], b32_2;",
    "red.global.max.s64 [b64_0], s64_1;",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.and.b32 [b64_0], [b32_1], b32_2;",
    *product("mbarrier.init{s}.b64 [b32_0], b32_1;", s=".shared .shared::cta"),
    *product("mbarrier.inval{s}.b64 [b32_0];", s=".shared .shared::cta"),
    "mbarrier.pending_count.b64 b32_0, b64_1;",
    "bar.sync 0, 64;",
    "bar.red.and.pred pred_0, 1, 32, pred_1;",
    # names
    "{ .reg .b32 b32_0; mov.b32 b32_0, 1; }",
    "LA: { LA: mov.u32 u32_0, 1; }",
    "ld.global.v2.b32 {_, b32_1}, [b64_2];",
    "atom.global.add.u32 _, [b64_1], u32_2;",
]

REFUSED = [
    # registers
    *product("add.u32 u32_0, {a}_1, u32_2;", a="f32 b16 b64 pred f64"),
    *product("add.f32 {a}_0, f32_1, f32_2;", a="u32 s32 f16x2 f64 b64"),
    *product("add.s32 s32_0, s32_1, {a}_2;", a="f32 u64 u16"),
    *product("add.bf16 b16_0, b16_1, {a}_2;", a="f16 u16 s16 b32"),
    *product("fma.rn.f16x2 b32_0, b32_1, b32_2, {a}_3;", a="u32 f32 b16"),
    *product("shl.b32 b32_0, b32_1, {a}_2;", a="f32 b64 b16"),
    *product("ld.global.u32 {a}_0, [b64_1];", a="f32 f64 b16 pred"),
    *product("ld.global.f32 {a}_0, [b64_1];", a="u32 f64 s64 f16x2"),
    *product("ld.global.b32 b32_0, [{a}_1];", a="f32 f64 f16x2 pred"),
    *product("cvt.rn.bf16.s32 {a}_0, s32_1;", a="b32 f16 u16"),
    *product("mov.u32 u32_0, {a}_1;", a="f32 b64 pred b16"),
    "shfl.sync.idx.b32 b32_0, b32_1, 0, 31, f32_2;",
    "ld.global.v2.b32 {b32_0, b64_0}, [b64_1];",
    "setp.eq.u32 b32_0, b32_1, b32_2;",
    "@b32_0 mov.u32 u32_0, 1;",
    "and.b32 b32_0, !b32_1, b32_2;",
    # constants, symbols and special registers
    *product("add.u32 u32_0, u32_1, {c};", c="1.5 0f3f800000 0d3ff0000000000000 sm %tid.x"),
    *product("add.f32 f32_0, f32_1, {c};", c="1 -1 WARP_SZ"),
    *product("add.f16 f16_0, f16_1, {c};", c="1 1.5"),
    *product("mov.u32 u32_0, {c};", c="0f3f800000 1.5 %clock64"),
    *product("mov.f32 f32_0, {c};", c="1 sm %tid.x"),
    *product("and.b32 b32_0, b32_1, {c};", c="1.5 0d3ff0000000000000"),
    *product("mov.u64 u64_0, {c};", c="%tid.x"),
    # number of operands
    "add.u32 u32_0, u32_1, u32_2, u32_3;",
    "add.u32 u32_0, u32_1;",
    "fma.rn.f32 f32_0, f32_1, f32_2;",
    "setp.eq.u32 pred_0, u32_0, u32_1, pred_2;",
    "setp.eq.and.u32 pred_0, u32_0, u32_1;",
    "bar.sync 0, 32, pred_0;",
    "bar.arrive 0;",
    "bar.warp.sync -1, 3;",
    "ld.global.b32 b32_0, [b64_1], b64_2;",
    "vote.sync.all.pred pred_0, pred_1, -1, 2;",
    "prefetch.global.L2 [b64_0], 4;",
    "cvt.u32.u16 u32_0, u16_0, u16_1;",
    "ret 1;",
    # modifiers and types
    *product("add.{t} b32_0, b32_1, b32_2;", t="b32 u8 pred u32.u32"),
    *product("{o}.bf16 b16_0, b16_1, b16_2;", o="add.sat sub.sat mul.sat add.ftz add.rz"),
    *product("{o}.f64 f64_0, f64_1, f64_2;", o="add.sat add.ftz min.NaN div div.approx"),
    *product("{o}.u32 b32_0, b32_1, b32_2;", o="add.rn add.sat mul min.relu and"),
    *product("setp.{c}.s32 pred_0, s32_1, s32_2;", c="lo ls hi hs equ num eq.ftz"),
    *product("setp.{c}.f32 pred_0, f32_1, f32_2;", c="lo hs"),
    *product("setp.{c}.b32 pred_0, b32_1, b32_2;", c="lt ge"),
    "setp.lt.f16 pred_0|pred_1, f16_0, f16_1;",
    *product("cvt.{m}.f64.f32 f64_0, f32_1;", m="rn rz rni rn.sat relu satfinite"),
    *product("cvt.{m}.f16.f32 b16_0, f32_1;", m="rna rni rn.relu.sat rm.relu sat"),
    *product("cvt.{m}.u32.u16 u32_0, u16_1;", m="sat ftz rn rzi"),
    *product("cvt{m}.s32.f32 s32_0, f32_1;", m=".rn .sat .rni.relu .rna"),
    "cvt.s32.f32 s32_0, f32_1;",
    "cvt.rzi.sat.s32.bf16 s32_0, b16_1;",
    "add.rn.rn.f32 f32_0, f32_1, f32_2;",
    "min.abs.f32 f32_0, f32_1, f32_2;",
    "ex2.approx.bf16 b16_0, b16_1;",
    "mov.f16 f16_0, f16_1;",
    "ld.global.f16 f16_0, [b64_1];",
    "ld.global.global.b32 b32_0, [b64_1];",
    "ld.shared.v8.b32 {b32_0,b32_1,b32_2,b32_3,b32_4,b32_5,b32_6,b32_7}, [b64_1];",
    "st.shared.v4.b64 [b64_0], {b64_1, b64_2, b64_3, b64_4};",
    *product(
        "ld.{m}.b32 b32_0, [b64_1];", m="global.L2::evict_last shared.nc relaxed volatile.gpu"
    ),
    *product("ld.{m}.b32 b32_0, [b64_1];", m="mmio.relaxed.gpu weak.global.nc shared.L2::128B"),
    "st.mmio.relaxed.sys.shared.b32 [b64_0], b32_1;",
    "ld.global.u32 u32_0, [sm];",
    *product("atom.global.{o}.b32 b32_0, [b64_1], b32_2;", o="add min inc"),
    *product("atom.global.{o}.s64 b64_0, [b64_1], b64_2;", o="add and exch"),
    *product("red.global.{o}.u32 [b64_1], u32_2;", o="and exch add.noftz"),
    "atom.shared.add.L2::cache_hint.u32 u32_0, [b64_1], u32_2, b64_3;",
    *product(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.{o} [b64_0], [b32_1], b32_2;",
        o="add.b32 and.u32 inc.b32 min.b64 add.s64",
    ),
    *product(
        "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{o}"
        " [b32_0], [b32_1], b32_2, [b32_3];",
        o="and.b64 min.u64 add.f32 or.u32",
    ),
    *product("redux.sync.{o} b32_0, b32_1, -1;", o="add.b32 and.u32 min.b32"),
    *product(
        "mbarrier.init.{m} [b32_0], b32_1;",
        m="shared::cta shared::cluster.b64 relaxed.shared::cta.b64 cta.b64 release.cta.b64",
    ),
    *product("mbarrier.inval.{m} [b32_0];", m="shared::cta shared::cluster.b64 release.cta.b64"),
    *product("mbarrier.pending_count{m} b32_0, b64_1;", m=" .shared::cta.b64 .relaxed.b64"),
    *product("bar.red.{o} b32_0, 0, pred_0;", o="and.u32 or.u32"),
    *product("bar.sync {c};", c="16 0,33 0,1"),
    # names
    "{ LL: mov.u32 u32_0, 1; LL: mov.u32 u32_0, 1; }",
    "{ .reg .b32 x; .reg .f32 x; }",
    "add.u32 _, u32_1, u32_2;",
    "ld.global.b32 _, [b64_1];",
]


def test_ptxas_accepts_the_accepted(tmp_path):
    refused = errors_of_ptxas(ACCEPTED, tmp_path)
    assert {ACCEPTED[i]: message for i, message in refused.items()} == {}


def test_ptxas_refuses_the_refused(tmp_path):
    refused = errors_of_ptxas(REFUSED, tmp_path)
    assert [line for i, line in enumerate(REFUSED) if i not in refused] == []


@pytest.mark.parametrize("line", ACCEPTED)
def test_accepted(line):
    Device("sm_100a").load_ptx(module([line]))


@pytest.mark.parametrize("line", REFUSED)
def test_refused(line):
    with pytest.raises(EmulatorError) as caught:
        Device("sm_100a").load_ptx(module([line]))
    assert caught.value.kind in ("illegal-operand", "syntax")
    assert caught.value.ptx_line == FIRST_LINE


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("add.sat.bf16 b16_0, b16_1, b16_2;", ["'.sat' is not allowed with .bf16", "add.sat.bf16"]),
        ("cvt.s32.f32 s32_0, f32_1;", ["needs one of .rni .rzi .rmi .rpi with .s32.f32"]),
        ("add.b32 b32_0, b32_1, b32_2;", ["'add' does not exist with .b32"]),
        ("add.f32 f32_0, f32_1, s32_2;", ["'s32_2' is declared .s32 where .f32 is expected"]),
        ("add.u32 u32_0, u32_1, 1.5;", ["a floating-point constant where .u32 is expected"]),
        ("bar.sync 0, 32, pred_0;", ["takes 2 operands here, but 3 are given"]),
        ("{ L: ret; L: ret; }", ["label 'L' is defined twice"]),
    ],
)
def test_the_message_names_the_rule(line, words):
    with pytest.raises(EmulatorError) as caught:
        Device("sm_100a").load_ptx(module([line]))
    for word in words:
        assert word in str(caught.value)
