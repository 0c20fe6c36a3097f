"""Instructions by class: kernels whose counts are known exactly."""

import numpy as np
import pytest
from ptx_kernels import HEADER

import tilelang
import tilelang.language as T
from tilelang.emulator import Device, InstructionCount

_DECLARE = """ .reg .b32 %r<20>; .reg .b64 %d<20>; .reg .f32 %f<20>; .reg .pred %p<9>;
 .reg .b16 %h<9>; .shared .align 16 .b8 sm[256]; .local .align 8 .b8 lo[16];\n"""


def counts(body, grid=1, block=32, **options):
    """Launches ``body`` (``ret`` follows); returns {class: (instructions, lane instructions)}."""
    text = f"{HEADER}.visible .entry k(.param .u64 P) {{\n{_DECLARE}{body}\n ret;\n}}\n"
    data = np.zeros(64, np.uint32)
    # Registers that nothing initialises are no matter here.
    report = (
        Device("sm_100a")
        .load_ptx(text)["k"]
        .launch(grid, block, [data], **{"sanitize": False, **options})
    )
    assert report.instructions == sum(c.instructions for c in report.by_class.values())
    assert report.lane_instructions == sum(c.lane_instructions for c in report.by_class.values())
    return {name: (c.instructions, c.lane_instructions) for name, c in report.by_class.items()}


def test_nothing_but_the_end():
    assert counts("") == {"control": (1, 32)}


@pytest.mark.parametrize("threads", [1, 2])
def test_a_loop_on_several_ctas(threads):
    body = "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 37; @%p1 bra L;"
    found = counts(body, grid=5, block=72, threads=threads)  # two warps and one of 8 lanes
    warps, lanes = 5 * 3, 5 * 72
    assert found == {
        "move": (warps, lanes),
        "integer": (74 * warps, 74 * lanes),
        # 36 of the 37 branches are taken; the guard of the last is false
        "control": (37 * warps + warps, 36 * lanes + lanes),
    }


def test_lanes_that_diverge():
    # lane i runs i + 1 rounds: in round r of 32, 32 - r lanes take part
    body = """mov.u32 %r0, %tid.x; mov.f32 %f1, 0f3F800000;
    L: fma.rn.f32 %f1, %f1, %f1, %f1; setp.ne.u32 %p1, %r0, 0; sub.u32 %r0, %r0, 1; @%p1 bra L;"""
    found = counts(body)
    triangle = 32 * 33 // 2
    assert found["float"] == (32, triangle)
    assert found["integer"] == (64, 2 * triangle)
    assert found["control"][1] == triangle - 32 + 32  # branches taken, then ret


def test_guards_do_not_count_as_lanes():
    body = """mov.u32 %r0, %laneid; setp.lt.u32 %p1, %r0, 5; @%p1 add.u32 %r1, %r0, 1;
    @!%p1 cvt.rn.f32.u32 %f1, %r0; setp.gt.u32 %p2, %r0, 99; @%p2 cvt.u64.u32 %d1, %r0;"""
    assert counts(body) == {
        "move": (1, 32),
        "integer": (3, 32 + 5 + 32),
        "conversion": (2, 27),
        "control": (1, 32),
    }


@pytest.mark.parametrize(
    ("instruction", "kind"),
    [
        ("ld.global.u32 %r9, [%d0];", "global memory"),
        ("atom.global.add.u32 %r9, [%d0], 1;", "global memory"),
        ("red.global.add.u32 [%d0], 1;", "global memory"),
        ("ld.u32 %r9, [%d0];", "generic memory"),
        ("st.shared.u32 [sm], %r9;", "shared memory"),
        ("atom.shared::cta.add.u32 %r9, [sm], 1;", "shared memory"),
        ("st.local.u32 [lo], %r9;", "local memory"),
        ("add.rn.f16x2 %r9, %r9, %r9;", "float"),
        ("setp.lt.f32 %p8, %f1, %f2;", "float"),
        ("ex2.approx.f32 %f1, %f2;", "float"),
        ("prmt.b32 %r9, %r9, %r9, 0x3210;", "integer"),
        ("selp.f32 %f1, %f2, %f3, %p8;", "move"),
        ("cvta.shared.u64 %d9, %d9;", "move"),
        ("shfl.sync.idx.b32 %r9, %r9, 0, 31, -1;", "warp"),
        ("bar.warp.sync -1;", "warp"),
        ("bar.sync 0;", "barrier"),
        ("fence.acq_rel.gpu;", "barrier"),
        ("cp.async.wait_all;", "asynchronous copy"),
        ("nanosleep.u32 1;", "control"),
    ],
)
@pytest.mark.filterwarnings("ignore::tilelang.emulator.EmulatorWarning")
def test_class_of_an_instruction(instruction, kind):
    load = "ld.param.u64 %d0, [P]; "
    base, found = counts(load), counts(load + 3 * instruction)
    base_count, count = base.get(kind, (0, 0)), found[kind]
    assert (count[0] - base_count[0], count[1] - base_count[1]) == (3, 96)
    assert {name: c for name, c in found.items() if name != kind} == {
        name: c for name, c in base.items() if name != kind
    }


def test_waits_that_are_tried_again_count_once():
    body = """mov.u32 %r0, %tid.x; setp.ge.u32 %p1, %r0, 32; @%p1 bra W;
    mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 9000; @%p2 bra L;
    W: bar.sync 0;"""
    assert counts(body, block=128)["barrier"] == (4, 128)


def test_a_compiled_kernel_reports_its_last_launch():
    @T.prim_func
    def double(A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32")):
        with T.Kernel(2, threads=128) as bx:
            for i in T.Parallel(128):
                B[bx * 128 + i] = A[bx * 128 + i] * T.float32(3)

    kernel = tilelang.compile(double, target="sm_100a")
    assert kernel.last_launch is None
    a, b = np.arange(256, dtype=np.float32), np.full(256, np.nan, np.float32)
    kernel(a, b)
    np.testing.assert_array_equal(b, 3 * a)
    by_class = kernel.last_launch.by_class
    assert by_class["float"] == InstructionCount(8, 256)
    assert by_class["global memory"] == InstructionCount(16, 512)
