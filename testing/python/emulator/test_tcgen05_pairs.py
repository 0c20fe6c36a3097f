"""tcgen05 with .cta_group::2: layouts A and B, kinds, shapes and arithmetic of pairs of CTAs."""

import numpy as np
import pytest
from emulator.pair_kernels import B_AT, PairCase, body, mma

from tilelang.emulator import EmulatorWarning

KINDS = [
    ("f16", "f16", "f16", "f32"),
    ("f16", "f16", "f16", "f16"),
    ("f16", "bf16", "bf16", "f32"),
    ("tf32", "tf32", "tf32", "f32"),
    ("f8f6f4", "e4m3", "e4m3", "f32"),
    ("f8f6f4", "e5m2", "e4m3", "f16"),
    ("f8f6f4", "e2m3", "e3m2", "f32"),
    ("f8f6f4", "e2m1", "e5m2", "f32"),
    ("i8", "s8", "s8", "s32"),
    ("i8", "u8", "s8", "s32"),
]


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("m", [128, 256])
@pytest.mark.parametrize(("kind", "a", "b", "d"), KINDS)
def test_kinds(kind, a, b, d, m, accumulate):
    PairCase(kind, a, b, d, m, 96, accumulate=accumulate).check()


@pytest.mark.parametrize("m", [128, 256])
@pytest.mark.parametrize("n", [16, 48, 80, 176, 256])
def test_shapes(m, n):
    PairCase("f16", "bf16", "bf16", m=m, n=n).check()


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("majors", ["KK", "KM", "MK", "MM"])
@pytest.mark.parametrize(("kind", "a", "d"), [("f16", "bf16", "f32"), ("i8", "s8", "s32")])
def test_majorness_and_swizzles(kind, a, d, majors, swizzle):
    # Half of B's columns fill the rows of a swizzle pattern.
    PairCase(kind, a, a, d, n=256, majors=majors, swizzles=(swizzle, swizzle)).check()


@pytest.mark.parametrize("n", [16, 48, 208])
@pytest.mark.parametrize("majors", ["KM", "MM"])
def test_few_columns_along_n(majors, n):
    PairCase("f16", "f16", "f16", m=128, n=n, majors=majors, swizzles=("128B", "none")).check()


@pytest.mark.parametrize("majors", ["KM", "MK", "MM"])
def test_tf32_majorness(majors):
    swizzle = {"K": "128B", "M": "128B_atom32B"}
    swizzles = tuple(swizzle[major] for major in majors)
    PairCase("tf32", "tf32", "tf32", n=64, majors=majors, swizzles=swizzles).check()


@pytest.mark.parametrize("schedule", ["late", "eager", 1, 2, 3])
@pytest.mark.parametrize("issuer", [0, 1])
def test_either_cta_issues(issuer, schedule):
    """The halves of the operands are those of the CTAs' ranks, whoever issues."""
    case = PairCase("f16", "f16", "f16", n=48)
    case.check(text=body(mma("f16"), issuer), schedule=schedule)


@pytest.mark.parametrize("schedule", ["late", "eager", 4])
@pytest.mark.parametrize("cluster", [2, 4])
def test_several_pairs(cluster, schedule):
    case = PairCase("f16", "bf16", "bf16", m=128, n=32)
    case.check(grid=8, cluster=cluster, schedule=schedule)


@pytest.mark.parametrize("m", [128, 256])
@pytest.mark.parametrize(("kind", "a", "b", "d"), [KINDS[i] for i in (0, 2, 3, 4, 8)])
def test_a_in_tensor_memory(kind, a, b, d, m):
    case = PairCase(kind, a, b, d, m, 64)
    case.store_a(300)
    case.images[:, :B_AT] = 0xFF  # not read
    case.check(text=body(mma(kind, a="[%r2+300]")))


def test_halves_of_n_read_their_own_copies_of_a():
    case = PairCase("f16", "f16", "f16", m=128, n=64)
    other = PairCase("f16", "f16", "f16", m=128, n=64, seed=1)
    case.store_a(300)
    kept = case.cells[:, :64, 300:308].copy()
    case.store_a(300, other.a_codes)
    case.cells[:, :64, 300:308] = kept
    expected = case.expected()
    expected[:, 32:] = case.expected(a=other.a)[:, 32:]
    case.check(expected, body(mma("f16", a="[%r2+300]")))


def test_ashift_moves_rows_of_a_in_each_cta():
    case = PairCase("f16", "f16", "f16", n=32)
    case.store_a(300)
    shifted = np.concatenate([np.r_[half[1:], half[-1:]] for half in (case.a[:128], case.a[128:])])
    case.check(case.expected(a=shifted), body(mma("f16", a="[%r2+300]", modifiers=".ashift")))


@pytest.mark.parametrize("scale", [0, 1, 7, 15])
def test_scale_of_the_accumulator(scale):
    case = PairCase("f16", "f16", "f16", m=128, n=32)
    case.check(case.expected(scale=scale), body(mma("f16", scale=f", {scale}")))


@pytest.mark.parametrize("m", [128, 256])
def test_disabled_lanes_keep_their_cells(m):
    case = PairCase("f16", "f16", "f16", m=m, n=32)
    masks = case.rng.integers(0, 2**32, 8, dtype=np.uint32)
    moves = "".join(f" mov.u32 %r{30 + i}, {mask};" for i, mask in enumerate(masks))
    vector = ", ".join(f"%r{30 + i}" for i in range(8))
    lanes = np.arange(256, dtype=np.uint32)
    keep = ((masks[lanes // 32] >> lanes % 32) & 1).reshape(2, 128) == 1
    case.check(text=body(moves + mma("f16", tail=f"{{{vector}}}, ")), keep=keep)


def test_products_of_one_thread_follow_each_other():
    case = PairCase("f16", "f16", "f16", m=128, n=64)
    expected = case.expected()
    case.c, before = expected, case.c
    twice = case.expected()
    case.c = before
    case.check(twice, body(2 * mma("f16")))


COPIES = [
    ("128x256b", 128, 2, lambda r: [r]),
    ("4x256b", 4, 2, lambda r: [32 * r]),
    ("128x128b", 128, 1, lambda r: [r]),
    ("64x128b.warpx2::02_13", 64, 1, lambda r: [r, r + 64]),
    ("64x128b.warpx2::01_23", 64, 1, lambda r: [r // 32 * 64 + r % 32 + 32 * i for i in (0, 1)]),
    ("32x128b.warpx4", 32, 1, lambda r: [r + 32 * i for i in range(4)]),
]


@pytest.mark.parametrize("schedule", ["late", "eager", 1])
@pytest.mark.parametrize(("shape", "rows", "units", "lanes"), COPIES)
def test_cp_copies_in_each_cta(shape, rows, units, lanes, schedule):
    case = PairCase("f16", "f16", "f16")
    stride = 8 * 16 * units  # eight rows, units of a row 128 bytes apart
    # No swizzle: rows 16 bytes apart, groups of eight `stride` apart, units 128 bytes apart.
    case.args[0] = 1 << 46 | stride >> 4 << 32 | 128 >> 4 << 16 | 1024 >> 4
    out = case.run(body(f" tcgen05.cp.cta_group::2.{shape} [%r2+200], %d20;"), schedule=schedule)
    expected = case.cells.copy()
    for rank in range(2):
        for row in range(rows):
            for unit in range(units):
                at = row % 8 * 16 + row // 8 * stride + 128 * unit
                words = case.images[rank, at : at + 16].view(np.uint32)
                for lane in lanes(row):
                    expected[rank, lane, 200 + 4 * unit : 204 + 4 * unit] = words
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("lane", [0, 64])
def test_shift_moves_rows_in_each_cta(lane):
    case = PairCase("f16", "f16", "f16")
    out = case.run(body(f" tcgen05.shift.cta_group::2.down [%r2+{lane << 16 | 40}];"))
    expected = case.cells.copy()
    for i in range(lane, 128):
        if i % 32 != 31:
            expected[:, i, 40:48] = case.cells[:, i + 1, 40:48]
    np.testing.assert_array_equal(out, expected)


def test_lanes_of_the_odd_cta_may_be_counted_from_128():
    """As the warp's quarter, which lanes of a CTA its address names does not matter: a warning."""
    case = PairCase("f16", "f16", "f16")
    shift = " mov.u32 %r13, %cluster_ctarank; shl.b32 %r13, %r13, 23; add.u32 %r13, %r13, %r3;\n"
    copy = (
        " tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v0}, [%r13+100]; tcgen05.wait::ld.sync.aligned;"
    )
    store = (
        " tcgen05.st.sync.aligned.32x32b.x1.b32 [%r13+101], {%v0}; tcgen05.wait::st.sync.aligned;"
    )
    with pytest.warns(EmulatorWarning, match=r"names lane \d+, but warp \d reaches"):
        out = case.run(shift + copy + store)
    expected = case.cells.copy()
    expected[:, :, 101] = expected[:, :, 100]
    np.testing.assert_array_equal(out, expected)
