"""Control flow, memory spaces, barriers, atomics, calls: what the machine does with a program."""

import numpy as np
import pytest
from ptx_kernels import HEADER

from tilelang.emulator import Device, EmulatorError, EmulatorWarning


def run(body, arrays, *, grid=1, block=32, params="", before="", **options):
    """Runs ``body``: P0.. are the arrays' addresses in %d0.., %t the thread, %b the block."""
    text = HEADER + before + "\n.visible .entry k("
    text += ", ".join(f".param .u64 P{i}" for i in range(len(arrays))) + ") {\n"
    text += " .reg .b32 %r<40>; .reg .b64 %d<40>; .reg .pred %p<20>; .reg .f32 %f<20>;\n"
    text += " .reg .b16 %h<9>; .reg .b32 %t, %b; .reg .b128 %q<3>;\n"
    text += " mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x;\n"
    text += "".join(f" ld.param.u64 %d{i}, [P{i}];\n" for i in range(len(arrays)))
    kernel = Device("sm_100a").load_ptx(f"{text}\n{body}\n ret;\n}}\n")["k"]
    return kernel.launch(grid, block, arrays, **options)


STORE = "mad.wide.u32 %d30, %t, 4, %d0; st.global.u32 [%d30], {};"


def test_lane_waits_for_another_lane_of_its_warp():
    out = np.zeros(32, np.uint32)
    run(
        ".shared .b32 flag; mov.u32 %r1, flag; st.shared.u32 [%r1], 0; bar.sync 0;"
        "setp.ne.u32 %p1, %t, 5; @%p1 bra W; st.shared.u32 [%r1], 77; bra E;"
        "W: ld.volatile.shared.u32 %r2, [%r1]; setp.eq.u32 %p2, %r2, 0; @%p2 bra W;"
        "E: ld.volatile.shared.u32 %r3, [%r1];" + STORE.format("%r3"),
        [out],
        sanitize=False,
    )
    assert out.tolist() == [77] * 32


def test_lock_between_all_threads():
    counter = np.zeros(2, np.uint32)
    run(
        "L: atom.global.acquire.gpu.cas.b32 %r1, [%d0], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra L;"
        "ld.volatile.global.u32 %r2, [%d0+4]; add.u32 %r2, %r2, 3;"
        "st.volatile.global.u32 [%d0+4], %r2; atom.global.release.gpu.exch.b32 %r3, [%d0], 0;",
        [counter],
        grid=4,
        block=64,
    )
    assert counter.tolist() == [0, 3 * 256]


def test_ctas_wait_for_each_other():
    out = np.zeros(40, np.uint32)
    run(
        "atom.global.add.u32 %r1, [%d0], 1; W: ld.acquire.gpu.global.u32 %r2, [%d0];"
        "setp.lt.u32 %p1, %r2, 32; @%p1 bra W; mad.wide.u32 %d1, %b, 4, %d0;"
        "st.global.u32 [%d1+4], %r2;",
        [out],
        grid=32,
        block=1,
    )
    assert out[:33].tolist() == [32] * 33


def test_deadlock_names_the_barrier():
    with pytest.raises(EmulatorError) as caught:
        run("setp.lt.u32 %p1, %t, 32; @%p1 bra E; bar.sync 3, 96; E:", [], block=64)
    assert caught.value.kind == "deadlock"
    assert "barrier 3, 32 of 96 threads" in caught.value.reason
    assert "warp 1" in caught.value.reason


def test_aligned_instruction_on_a_diverged_warp():
    with pytest.raises(EmulatorError) as caught:
        run("setp.lt.u32 %p1, %t, 16; @%p1 bar.sync 0;", [])
    assert caught.value.kind == "divergence"


def test_barrier_counts_must_agree():
    with pytest.raises(EmulatorError, match="while others wait on it with") as caught:
        run(
            "setp.lt.u32 %p1, %t, 32; @%p1 bra A; bar.sync 1, 96; A: bar.sync 1, 128;",
            [],
            block=128,
        )
    assert caught.value.kind == "barrier"


def test_barrier_reductions_and_arrive():
    out = np.zeros(128, np.uint32)
    run(
        "setp.lt.u32 %p1, %t, 40; barrier.cta.red.popc.aligned.u32 %r1, 2, %p1;"
        "bar.red.and.pred %p2, 3, %p1; bar.red.or.pred %p3, 4, %p1; selp.u32 %r2, 100, 0, %p2;"
        "selp.u32 %r3, 200, 0, %p3; add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3;"
        "setp.ge.u32 %p4, %t, 64; @%p4 bar.arrive 5, 128; @!%p4 bar.sync 5, 128;"
        + STORE.format("%r1"),
        [out],
        block=128,
    )
    assert out.tolist() == [240] * 128


def test_lanes_meet_at_different_warp_barriers():
    out = np.zeros(32, np.uint32)
    run(
        ".shared .b32 s[32]; mov.u32 %r1, s; mad.lo.u32 %r2, %t, 4, %r1; st.shared.u32 [%r2], %t;"
        "setp.lt.u32 %p1, %t, 16; @%p1 bra A; bar.warp.sync -1; bra E;"
        "A: add.u32 %r9, %t, 1; bar.warp.sync -1;"
        "E: xor.b32 %r3, %t, 31; mad.lo.u32 %r3, %r3, 4, %r1; ld.shared.u32 %r4, [%r3];"
        + STORE.format("%r4"),
        [out],
    )
    assert out.tolist() == list(range(31, -1, -1))


def test_shuffle_among_groups_with_their_own_masks():
    out = np.zeros(32, np.uint32)
    run(
        "shr.u32 %r1, %t, 3; shl.b32 %r2, %r1, 3; mov.u32 %r3, 255; shl.b32 %r3, %r3, %r2;"
        "shfl.sync.bfly.b32 %r4, %t, 3, 31, %r3;" + STORE.format("%r4"),
        [out],
    )
    assert out.tolist() == [i ^ 3 for i in range(32)]


def test_indexed_branch():
    out = np.zeros(32, np.uint32)
    run(
        "and.b32 %r1, %t, 3; T: .branchtargets A, B, C, A; brx.idx %r1, T;"
        "A: mov.u32 %r2, 10; bra E; B: mov.u32 %r2, 20; bra E; C: mov.u32 %r2, 30;"
        "E: add.u32 %r2, %r2, %t;" + STORE.format("%r2"),
        [out],
    )
    assert out.tolist() == [[10, 20, 30, 10][i & 3] + i for i in range(32)]


def test_nested_scopes_declare_the_same_names():
    out = np.zeros(32, np.uint32)
    run(
        "mov.u32 %r1, 0;"
        "{ .reg .pred P; .reg .b32 x; mov.u32 x, 1; setp.lt.u32 P, %t, 8; @P bra DONE;"
        "  { .reg .b32 x; mov.u32 x, 50; add.u32 %r1, %r1, x; } add.u32 %r1, %r1, x; DONE: }"
        "{ .reg .pred P; setp.lt.u32 P, %t, 16; @P bra DONE; .reg .b32 late; mov.u32 late, 500;"
        "  add.u32 %r1, %r1, late; DONE: }" + STORE.format("%r1"),
        [out],
    )
    assert out.tolist() == [(i >= 8) * 51 + (i >= 16) * 500 for i in range(32)]


def test_device_functions_and_local_memory():
    out = np.zeros(32, np.uint32)
    before = """
.func (.param .b32 result) weigh(.param .b32 a, .param .align 4 .b8 pair[8]) {
 .reg .b32 %r<9>; .reg .pred %p; .local .align 4 .b8 depot[16]; .reg .b64 %d<4>;
 ld.param.u32 %r1, [a]; ld.param.v2.u32 {%r2, %r3}, [pair];
 mov.u64 %d1, depot; st.local.u32 [depot+4], %r2; cvta.local.u64 %d2, %d1; ld.u32 %r4, [%d2+4];
 setp.gt.u32 %p, %r1, 20; @%p bra BIG;
 mad.lo.u32 %r5, %r4, %r1, %r3; st.param.b32 [result], %r5; ret;
BIG: st.param.b32 [result], %r1; ret;
}"""
    body = (
        "{ .param .b32 a; .param .align 4 .b8 pair[8]; .param .b32 res; st.param.b32 [a], %t;"
        "st.param.b32 [pair], 5; st.param.b32 [pair+4], 1000;"
        "call.uni (res), weigh, (a, pair); ld.param.b32 %r1, [res]; }"
        "setp.lt.u32 %p1, %t, 4;"
        "{ .param .b32 a; .param .align 4 .b8 pair[8]; .param .b32 res; st.param.b32 [a], 2;"
        "st.param.v2.b32 [pair], {7, 1}; @%p1 call (res), weigh, (a, pair);"
        "@%p1 ld.param.b32 %r1, [res]; }" + STORE.format("%r1")
    )
    run(body, [out], before=before)
    expected = [15 if i < 4 else 5 * i + 1000 if i <= 20 else i for i in range(32)]
    assert out.tolist() == expected


def test_generic_addresses_constants_and_globals():
    out = np.zeros(32, np.uint32)
    before = (
        ".const .align 4 .b32 table[4] = {11, 22, 33, 44};"
        ".global .align 8 .b64 pointer[1] = {generic(values)};"
        ".global .align 4 .b32 values[4] = {1, 2, 3, 4};"
    )
    body = (
        ".shared .align 8 .b8 sm[128]; and.b32 %r1, %t, 3;"
        "mov.u64 %d1, sm; cvta.shared.u64 %d1, %d1;"
        "mad.wide.u32 %d2, %t, 4, %d1; st.u32 [%d2], %t;"
        "mov.u64 %d3, table; cvta.const.u64 %d3, %d3;"
        "mad.wide.u32 %d3, %r1, 4, %d3; ld.u32 %r2, [%d3]; ld.global.u64 %d4, [pointer];"
        "mad.wide.u32 %d4, %r1, 4, %d4; ld.u32 %r3, [%d4]; ld.u32 %r4, [%d2];"
        "isspacep.shared %p1, %d2; @!%p1 trap; add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4;"
        + STORE.format("%r2")
    )
    run(body, [out], before=before)
    assert out.tolist() == [(11, 22, 33, 44)[i & 3] + (i & 3) + 1 + i for i in range(32)]


def test_vectors_and_wide_registers():
    data = np.random.default_rng(0).integers(0, 1 << 32, (32, 8), dtype=np.uint32)
    out = np.zeros_like(data)
    body = (
        "mad.wide.u32 %d2, %t, 32, %d0; mad.wide.u32 %d3, %t, 32, %d1;"
        "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d2]; ld.global.b128 %q1, [%d2+16];"
        "mov.b128 {%d4, %d5}, %q1; mov.b64 {%r5, _}, %d4; mov.b64 {_, %r6}, %d4;"
        "mov.b64 %d6, {%r6, %r5}; st.global.v4.b32 [%d3], {%r4, %r3, %r2, 7};"
        "st.global.v2.b64 [%d3+16], {%d6, %d5};"
    )
    run(body, [data, out])
    np.testing.assert_array_equal(out[:, :3], data[:, 3:0:-1])
    assert (out[:, 3] == 7).all()
    np.testing.assert_array_equal(out[:, 4:], data[:, [5, 4, 6, 7]])


def test_narrow_loads_extend_and_narrow_stores_cut():
    data = np.random.default_rng(1).integers(0, 256, 32, dtype=np.uint8)
    out, cut = np.zeros(32, np.uint32), np.zeros(32, np.uint8)
    body = (
        "cvt.u64.u32 %d5, %t; add.u64 %d6, %d1, %d5; ld.global.s8 %r1, [%d6];"
        "ld.global.u8 %h1, [%d6]; cvt.u32.u16 %r2, %h1; mad.lo.u32 %r1, %r2, 65536, %r1;"
        "add.u64 %d7, %d2, %d5; add.u32 %r3, %r2, 300; st.global.b8 [%d7], %r3;"
        + STORE.format("%r1")
    )
    run(body, [out, data, cut])
    signed = data.view(np.int8).astype(np.int64)
    np.testing.assert_array_equal(out, (data.astype(np.int64) * 65536 + signed) % (1 << 32))
    np.testing.assert_array_equal(cut, (data.astype(np.int64) + 300) % 256)


ATOMICS = {
    "add.u32": lambda a, b: a + b,
    "min.s32": lambda a, b: np.minimum(a.view(np.int32), b.view(np.int32)).view(np.uint32),
    "max.u32": np.maximum,
    "and.b32": np.bitwise_and,
    "or.b32": np.bitwise_or,
    "xor.b32": np.bitwise_xor,
    "exch.b32": lambda a, b: b,
    "inc.u32": lambda a, b: np.where(a >= b, 0, a + 1).astype(np.uint32),
    "dec.u32": lambda a, b: np.where((a == 0) | (a > b), b, a - 1).astype(np.uint32),
}


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("name", ATOMICS)
def test_atomics(name, space):
    rng = np.random.default_rng(3)
    cells, values = rng.integers(0, 1 << 32, (2, 32), dtype=np.uint32)
    memory, old = cells.copy(), np.zeros(32, np.uint32)
    setup = "mad.wide.u32 %d5, %t, 4, %d1;"
    finish = ""
    if space == "shared":
        setup += (
            ".shared .b32 s[32]; mov.u64 %d4, s; ld.global.u32 %r5, [%d5];"
            "mad.wide.u32 %d4, %t, 4, %d4; st.shared.u32 [%d4], %r5;"
        )
        finish = "ld.shared.u32 %r6, [%d4]; st.global.u32 [%d5], %r6;"
    else:
        setup += "mov.u64 %d4, %d5;"
    body = (
        f"{setup} mad.wide.u32 %d6, %t, 4, %d2; ld.global.u32 %r1, [%d6];"
        f"atom.{space}.{name} %r2, [%d4], %r1; {finish}" + STORE.format("%r2")
    )
    run(body, [old, memory, values])
    np.testing.assert_array_equal(old, cells)
    np.testing.assert_array_equal(memory, ATOMICS[name](cells, values))


def test_float_atomics_of_all_threads():
    total = np.zeros(2, np.float32)
    run(
        "cvt.rn.f32.u32 %f1, %t; red.global.add.f32 [%d0], %f1;"
        "mov.f32 %f2, 0f3F000000; red.global.add.v2.f32 [%d0], {%f2, %f1};",
        [total],
        grid=3,
        block=64,
    )
    each = 3 * sum(range(64))
    assert total.tolist() == [each + 0.5 * 192, each]


def test_uninitialised_shared_memory_warns():
    out = np.zeros(32, np.uint32)
    body = ".shared .b32 s[32]; mov.u32 %r1, s; ld.shared.u32 %r2, [%r1];" + STORE.format("%r2")
    with pytest.warns(EmulatorWarning, match="nothing has written"):
        run(body, [out])


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("ld.global.u32 %r1, [%d0+4096];", "out-of-bounds"),
        ("ld.global.u32 %r1, [%d0+2];", "misaligned"),
        ("ld.u32 %r1, [0];", "out-of-bounds"),
        (".shared .b32 s[4]; mov.u32 %r1, s; st.shared.u32 [%r1+16], 1;", "out-of-bounds"),
        (".shared .b32 s[4]; mov.u32 %r1, s; st.shared.v2.u32 [%r1+4], {1, 2};", "misaligned"),
        (".local .b32 l[4]; st.local.u32 [l+16], 1;", "out-of-bounds"),
        ("mov.u32 %r1, 16; bar.sync %r1;", "illegal-operand"),
        ("shfl.sync.idx.b32 %r1, %t, 0, 31, 1;", "illegal-operand"),
        ("trap;", "trap"),
        ("add.u32 %r1, %d1, 1;", "illegal-operand"),
        ("mov.u32 %r1, nothing;", "illegal-operand"),
        ("bra NOWHERE;", "illegal-operand"),
        ("add.u32 %r1 %r2;", "syntax"),
    ],
)
def test_errors(body, kind):
    with pytest.raises(EmulatorError) as caught:
        run(body, [np.zeros(8, np.uint32)])
    assert caught.value.kind == kind
    assert caught.value.ptx_line > 4


def test_printf_and_assert(capsys):
    before = (
        ".global .align 1 .b8 text[24] = {37, 100, 32, 37, 53, 46, 50, 102, 32, 37, 108, 108, 117,"
        "10, 0}; .extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 v);"
    )
    body = (
        ".local .align 8 .b8 args[24]; setp.gt.u32 %p1, %t, 1; @%p1 ret; st.local.u32 [args], %t;"
        "st.local.u64 [args+8], 0x4004000000000000; st.local.u64 [args+16], 123456789012;"
        "mov.u64 %d1, args; cvta.local.u64 %d1, %d1; mov.u64 %d2, text;"
        "{ .param .b64 f; .param .b64 v; .param .b32 r; st.param.b64 [f], %d2;"
        "st.param.b64 [v], %d1; call.uni (r), vprintf, (f, v); ld.param.b32 %r1, [r]; }"
        + STORE.format("%r1")
    )
    count = np.zeros(2, np.uint32)
    report = run(body, [count], before=before)
    assert count.tolist() == [3, 3]  # printf of CUDA C++ returns how many arguments it took
    line = "{}  2.50 123456789012\n"
    assert report.output == line.format(0) + line.format(1)
    assert capsys.readouterr().out == report.output


def test_same_seed_same_run():
    out = [np.zeros(64, np.float32) for _ in range(4)]
    body = (
        "cvt.rn.f32.u32 %f1, %t; rcp.rn.f32 %f1, %f1; ex2.approx.f32 %f1, %f1;"
        "min.f32 %f1, %f1, 0f41200000; red.global.add.f32 [%d0], %f1;"
    )
    for array, seed in zip(out, (1, 1, 2, 3), strict=True):
        run(body, [array], grid=8, block=256, schedule=seed)
    assert out[0].tobytes() == out[1].tobytes()
