"""Timed launches: results stay, and the clock obeys what the program waits for."""

import pickle

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.emulator import Device, EmulatorError, TimingOptions
from tilelang.emulator.timed import REASONS
from tilelang.errors import UserError

ARCHES = ("sm_80", "sm_90a", "sm_100a")
HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
AXPY = (
    HEADER
    + """.visible .entry axpy(.param .u64 X, .param .u64 Y, .param .f32 A, .param .u32 N) {
 .reg .b64 %rd<6>; .reg .b32 %r<6>; .reg .f32 %f<6>; .reg .pred %p;
 ld.param.u64 %rd1, [X]; ld.param.u64 %rd2, [Y]; ld.param.f32 %f1, [A]; ld.param.u32 %r4, [N];
 mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
 mad.lo.u32 %r5, %r2, %r3, %r1;
 setp.ge.u32 %p, %r5, %r4;
 @%p bra DONE;
 mul.wide.u32 %rd3, %r5, 4; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;
 ld.global.f32 %f2, [%rd4]; ld.global.f32 %f3, [%rd5];
 fma.rn.f32 %f4, %f1, %f2, %f3;
 st.global.f32 [%rd5], %f4;
DONE: ret;
}
"""
)


def axpy(arch, n, timing):
    rng = np.random.default_rng(n)
    x, y = rng.random((2, n), np.float32)
    expected = np.float32(2.5) * x.astype(np.float64) + y
    report = (
        Device(arch)
        .load_ptx(AXPY)["axpy"]
        .launch(-(-n // 256), 256, [x, y, np.float32(2.5), n], timing=timing)
    )
    return report, y, expected


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("n", [1, 1000, 300001])
def test_results_of_all_ctas_are_there(arch, n):
    report, y, expected = axpy(arch, n, True)
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    plain, _, _ = axpy(arch, n, False)
    assert plain.timing is None
    assert report.instructions == plain.instructions
    assert report.by_class == plain.by_class


def fma_loop(arch, ctas, threads):
    """Cycles of a wave of CTAs that only multiply and add."""
    chains = "".join(f"fma.rn.f32 %f{i}, %f{i}, %f{i}, %f{i};\n" for i in range(8)) * 100
    setup = "".join(f"mov.f32 %f{i}, 0f3F800000;\n" for i in range(8))
    stores = "".join(f"st.global.f32 [%rd], %f{i};\n" for i in range(8))
    text = (
        HEADER.replace("sm_80", arch)
        + f""".visible .entry k(.param .u64 X) {{
 .reg .f32 %f<8>; .reg .b64 %rd; ld.param.u64 %rd, [X]; {setup} {chains} {stores} ret; }}"""
    )
    kernel = Device(arch).load_ptx(text)["k"]
    options = TimingOptions(sampled=True, l2="warm")
    report = kernel.launch(ctas, threads, [np.zeros(1, np.float32)], sanitize=False, timing=options)
    return report.timing.wave_cycles


def test_small_ctas_share_the_sub_cores():
    # Two CTAs of two warps take a sub-core for each warp; four take each of them twice.
    alone, two, four = (fma_loop("sm_90a", count * 132, 64) for count in (1, 2, 4))
    assert two < alone + 400
    assert four > alone + 600


def test_slices_can_be_copied():
    # The library keeps them until somebody asks.
    timing = axpy("sm_90a", 1000, True)[0].timing
    copy = pickle.loads(pickle.dumps(timing))
    assert len(copy.slice_begin) == len(timing.slice_begin) > 0
    assert timing.slice_end is timing.slice_end
    np.testing.assert_array_equal(copy.slice_end, timing.slice_end)
    assert copy.grid_us == timing.grid_us
    with pytest.raises(AttributeError, match="slice_color"):
        timing.slice_color  # noqa: B018


def test_sampled_runs_only_what_is_timed():
    report, y, expected = axpy("sm_90a", 1 << 20, TimingOptions(sampled=True))
    timing = report.timing
    written = np.isclose(y, expected, rtol=1e-6)
    assert written.sum() == timing.timed_ctas * 256
    assert timing.timed_ctas < timing.ctas == 4096


@pytest.mark.parametrize("arch", ARCHES)
def test_fields_fit_together(arch):
    timing = axpy(arch, 100000, True)[0].timing
    assert timing.arch == arch and timing.kernel == "axpy"
    begin, end, track = timing.slice_begin, timing.slice_end, timing.slice_track
    assert (begin <= end).all() and end.max() <= timing.span_cycles
    for number, kind in enumerate(timing.track_kind):
        mine = track == number
        if kind == "warp":
            assert (begin[mine][1:] == end[mine][:-1]).all()  # no gaps
            spent = timing.stall_cycles[timing.stall_track == number].sum()
            assert abs(spent - (end[mine][-1] - begin[mine][0])) <= mine.sum()
    assert timing.slice_reason.max() < len(REASONS)
    assert (timing.path_end[:-1] == timing.path_begin[1:]).all()
    assert (timing.engine_share >= 0).all() and (timing.engine_share <= 1).all()
    issues = dict(zip(timing.inst_opcode, timing.inst_issues, strict=False))
    assert issues["ld.global.f32"] == timing.timed_ctas * 8
    assert timing.grid_us > timing.launch_us > 0


def test_options_are_checked():
    with pytest.raises(UserError, match="timing must be"):
        axpy("sm_90a", 8, "yes")
    with pytest.raises(UserError, match="l2 must be"):
        TimingOptions(l2="hot")


def chain(count, instruction, setup=""):
    """A kernel of `count` dependent instructions."""
    body = f"{instruction}\n" * count
    return (
        HEADER
        + ".visible .entry k(.param .u64 P) {\n"
        + " .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .f64 %d<3>; .reg .pred %p;\n"
        + " mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [P]; mad.wide.u32 %rd1, %r1, 4, %rd1;\n"
        + " ld.global.f32 %f1, [%rd1];\n"
        + f" {setup}\n{body} st.global.f32 [%rd1], %f1;\n ret;\n}}\n"
    )


def cycles(text, threads=32, arch="sm_90a"):
    data = np.ones(4096, np.float32)
    report = Device(arch).load_ptx(text)["k"].launch(1, threads, [data], timing=True)
    return report.timing.span_cycles


@pytest.mark.parametrize(
    "instruction, latency",
    [("fma.rn.f32 %f1, %f1, %f1, %f1;", 4), ("ex2.approx.ftz.f32 %f1, %f1;", 17)],
)
def test_dependent_instructions_take_their_latency(instruction, latency):
    difference = cycles(chain(300, instruction)) - cycles(chain(100, instruction))
    assert difference == pytest.approx(200 * latency, rel=0.1)


def test_warps_of_a_sub_core_share_its_pipes():
    text = chain(400, "ex2.approx.ftz.f32 %f1, %f1;")
    one, four, sixteen = (cycles(text, 32 * warps) for warps in (1, 4, 16))
    assert four == pytest.approx(one, rel=0.02)
    # Four warps on each sub-core: 8 cycles each.
    assert sixteen - one == pytest.approx(400 * (32 - 17), rel=0.15)


@pytest.mark.parametrize("stride, ways", [(4, 1), (8, 2), (128, 32), (132, 1)])
def test_bank_conflicts_are_counted(stride, ways):
    text = (
        HEADER
        + ".visible .entry k(.param .u64 P) {\n"
        + " .reg .b64 %rd<3>; .reg .b32 %r<6>; .shared .align 16 .b8 S[8192];\n"
        + f" mov.u32 %r1, %tid.x; mov.u32 %r2, S; mad.lo.u32 %r3, %r1, {stride}, %r2;\n"
        + " st.shared.u32 [%r3], %r1;\n bar.warp.sync -1;\n ld.shared.u32 %r4, [%r3];\n"
        + " ld.param.u64 %rd1, [P]; st.global.u32 [%rd1], %r4;\n ret;\n}\n"
    )
    data = np.zeros(1, np.float32)
    timing = Device("sm_90a").load_ptx(text)["k"].launch(1, 32, [data], timing=True).timing
    at = timing.inst_opcode.index("st.shared.u32")
    assert timing.inst_wavefronts[at] == ways
    assert timing.inst_conflicts[at] == ways - 1


@pytest.mark.parametrize(
    "fence, waits",
    [
        ("fence.proxy.async", True),
        ("fence.proxy.async.shared::cta", False),
        ("fence.acq_rel.cta", False),
        ("membar.cta", False),
        ("fence.proxy.async.global", False),
        ("fence.mbarrier_init.release.cluster", False),
    ],
)
def test_fences_wait_for_copies_that_no_group_is_waited_for(fence, waits):
    """On an H200 one that ptxas makes MEMBAR.ALL.GPU of does, those of a CTA do not."""
    ptx = (
        HEADER.replace("sm_80", "sm_90a")
        + f""".visible .entry k(.param .u64 X, .param .u64 OUT) {{
 .reg .b64 %rd<4>; .reg .b32 %r<4>;
 .shared .align 16 .b8 tile[512];
 ld.param.u64 %rd1, [X]; ld.param.u64 %rd2, [OUT];
 mov.u32 %r0, %tid.x; shl.b32 %r0, %r0, 4; cvt.u64.u32 %rd0, %r0; add.u64 %rd1, %rd1, %rd0;
 mov.u32 %r1, tile; add.u32 %r1, %r1, %r0;
 mov.u32 %r2, %clock;
 cp.async.cg.shared.global [%r1], [%rd1], 16; cp.async.commit_group;
 {fence};
 mov.u32 %r3, %clock; sub.u32 %r3, %r3, %r2; st.global.u32 [%rd2], %r3;
 cp.async.wait_all; ret;
}}
"""
    )
    took = np.zeros(1, np.uint32)
    kernel = Device("sm_90a").load_ptx(ptx)["k"]
    kernel.launch(1, 32, [np.zeros(512, np.uint8), took], timing=TimingOptions(l2="warm"))
    assert (took[0] > 250) == waits


def l2_cycles(l2, apart):
    """Of a wave of CTAs that load 64 KiB each, ``apart`` bytes after those of the one before."""
    ptx = (
        HEADER.replace("sm_80", "sm_90a")
        + """.visible .entry k(.param .u64 X, .param .u32 A) {
 .reg .b64 %rd<4>; .reg .b32 %r<6>; .reg .f32 %f<6>; .reg .pred %p;
 ld.param.u64 %rd1, [X]; ld.param.u32 %r1, [A]; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %tid.x;
 mul.wide.u32 %rd2, %r2, %r1; add.u64 %rd1, %rd1, %rd2; mul.wide.u32 %rd2, %r3, 16;
 add.u64 %rd1, %rd1, %rd2; mov.u32 %r4, 0; mov.f32 %f4, 0f00000000;
L: ld.global.cg.v4.f32 {%f0, %f1, %f2, %f3}, [%rd1]; add.f32 %f4, %f4, %f0;
 add.u64 %rd1, %rd1, 16384; add.u32 %r4, %r4, 1; setp.ne.u32 %p, %r4, 4; @%p bra L;
 setp.eq.f32 %p, %f4, 0f3F800000; @%p st.global.f32 [%rd1], %f4; ret;
}
"""
    )
    data = np.zeros(132 << 16, np.uint8)
    kernel = Device("sm_90a").load_ptx(ptx)["k"]
    options = TimingOptions(sampled=True, l2=l2)
    return kernel.launch(132, 1024, [data, apart], sanitize=False, timing=options).timing


def test_lines_that_several_read_come_faster_from_a_warm_l2_too():
    same, own = (l2_cycles("warm", apart).wave_cycles for apart in (0, 1 << 16))
    assert same < 0.9 * own


def test_errors_are_those_of_every_launch():
    with pytest.raises(EmulatorError) as caught:
        Device("sm_90a").load_ptx(AXPY)["axpy"].launch(
            2, 256, [np.zeros(8, np.float32), np.zeros(512, np.float32), 1.0, 512], timing=True
        )
    assert caught.value.kind == "out-of-bounds"


@pytest.mark.parametrize("columns", [4096, 3888])
def test_hbm_sends_all_of_the_lines_that_two_ctas_read_parts_of(columns):
    """Rows of 3888 bfloat16 end inside a line: two CTAs read it, each its own sectors."""
    rows, tile = 4096, (64, 128)

    @T.prim_func
    def add(
        A: T.Tensor((rows, columns), "bfloat16"),
        B: T.Tensor((rows, columns), "bfloat16"),
        C: T.Tensor((rows, columns), "bfloat16"),
    ):
        grid = T.ceildiv(columns, tile[1]), T.ceildiv(rows, tile[0])
        with T.Kernel(*grid, threads=128) as (bx, by):
            for i, j in T.Parallel(*tile):
                at = by * tile[0] + i, bx * tile[1] + j
                C[at] = A[at] + B[at]

    timing = tilelang.compile(add, target="sm_100a").profile().timing
    assert timing.dram_bytes == pytest.approx(3 * 2 * rows * columns, rel=0.03)
