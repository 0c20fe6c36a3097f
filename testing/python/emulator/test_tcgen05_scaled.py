"""Block-scaled tcgen05.mma against the NumPy model: kinds, vectors of scale factors, ids, pairs."""

import itertools

import numpy as np
import pytest
from emulator.scaled_kernels import PARAMS, SFA_AT, ScaledCase, mma, one_cta
from emulator.tmem_kernels import HEADER, build, run
from ptx_kernels import accepted_by_ptxas

from emulator import scaled_model
from tilelang.emulator import Device, EmulatorError, EmulatorWarning

NARROW = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
FP4 = [
    ("mxf4", "ue8m0", 32),
    ("mxf4nvf4", "ue8m0", 32),
    ("mxf4nvf4", "ue8m0", 16),
    ("mxf4nvf4", "ue4m3", 16),
]


@pytest.mark.parametrize(("a", "b"), list(itertools.product(NARROW, NARROW)))
def test_mxf8f6f4(a, b):
    ScaledCase("mxf8f6f4", a, b, n=40, accumulate=(a != b)).check()


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize(("kind", "scale", "block"), FP4)
def test_fp4(kind, scale, block, accumulate):
    ScaledCase(kind, scale=scale, block=block, n=72, accumulate=accumulate).check()


@pytest.mark.parametrize(("kind", "scale", "block"), [("mxf8f6f4", "ue8m0", 32), *FP4])
def test_exact_sums_do_not_depend_on_the_model(kind, scale, block):
    """Sums of small powers of two: what every arithmetic gives."""
    case = ScaledCase(kind, scale="ue8m0", block=block, n=64, exact=True)
    a, b = (
        x * np.repeat(scaled_model.scale_values("ue8m0", s), block, axis=1)
        for x, s in ((case.a, case.sa), (case.b, case.sb))
    )
    case.check(expected=(a @ b.T + case.c).astype(np.float32))


VECTORS = [
    ("mxf8f6f4", "", 32, range(4)),
    ("mxf8f6f4", ".scale_vec::1X", 32, range(4)),
    ("mxf4", "", 32, (0, 2)),
    ("mxf4", ".scale_vec::2X", 32, (0, 2)),
    ("mxf4nvf4", ".scale_vec::2X", 32, (0, 2)),
    ("mxf4nvf4", ".scale_vec::4X", 16, (0,)),
]


@pytest.mark.parametrize(("kind", "vector", "block", "ids"), VECTORS)
def test_ids_and_spellings(kind, vector, block, ids):
    for a, b in itertools.product(ids, ids):
        ScaledCase(kind, block=block, n=16, ids=(a, b)).check(vector)


@pytest.mark.parametrize("n", [8, 16, 104, 128, 136, 192, 256])
@pytest.mark.parametrize("kind", ["mxf8f6f4", "mxf4nvf4"])
def test_columns(kind, n):
    ScaledCase(kind, block=32 if kind == "mxf8f6f4" else 16, n=n).check()


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("kind", ["mxf8f6f4", "mxf4"])
def test_swizzles(kind, swizzle):
    ScaledCase(kind, n=32, swizzles=(swizzle, swizzle)).check()


@pytest.mark.parametrize("majors", [("K", "MN"), ("MN", "K"), ("MN", "MN")])
def test_majors(majors):
    ScaledCase("mxf8f6f4", "e4m3", "e5m2", n=128, majors=majors).check()


@pytest.mark.parametrize("negate", [(0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("kind", ["mxf8f6f4", "mxf4"])
def test_negation(kind, negate):
    ScaledCase(kind, n=16, negate=negate).check()


@pytest.mark.parametrize("a", ["e4m3", "e2m3", "e2m1"])
def test_a_in_tensor_memory(a):
    case = ScaledCase("mxf8f6f4", a, "e5m2", n=32)
    case.store_a()
    case.check(a="[%r2+400]")


def test_nibbles_of_a_in_tensor_memory():
    case = ScaledCase("mxf4nvf4", scale="ue4m3", block=16, n=32)
    case.store_a()
    case.check(a="[%r2+400]")


@pytest.mark.parametrize("schedule", ["late", "eager", 3])
@pytest.mark.parametrize("m", [128, 256])
@pytest.mark.parametrize(("kind", "scale", "block"), [("mxf8f6f4", "ue8m0", 32), *FP4])
def test_pairs(kind, scale, block, m, schedule):
    """With M = 128 the halves of the columns have scale factors in the halves of the lanes."""
    case = ScaledCase(kind, scale=scale, block=block, m=m, n=96, group=2)
    case.check(schedule=schedule)


@pytest.mark.parametrize(
    ("column", "kind", "scale", "block", "ids"),
    [
        (0, "mxf4", "ue8m0", 32, (0, 3)),
        (48, "mxf4", "ue8m0", 32, (3, 0)),
        (96, "mxf4", "ue8m0", 32, (2, 1)),
        (16, "mxf4nvf4", "ue8m0", 32, (1, 2)),
        (64, "mxf4nvf4", "ue8m0", 16, (0, 2)),
        (112, "mxf4nvf4", "ue4m3", 16, (2, 0)),
        (32, "mxf4nvf4", "ue4m3", 16, (2, 2)),
        (80, "mxf4nvf4", "ue4m3", 16, (0, 0)),
    ],
)
def test_depth_of_96(column, kind, scale, block, ids):
    """Rows of 48 bytes, eight in three buffers; scale factors run over into the next column."""
    case = ScaledCase(
        kind, scale=scale, block=block, n=48, ids=ids, depth=96, column=column, seed=column
    )
    case.check(arch="sm_103a")


def test_depth_of_96_in_pairs_and_without_swizzle():
    options = {"scale": "ue4m3", "block": 16, "depth": 96}
    ScaledCase("mxf4nvf4", m=256, n=96, group=2, column=96, **options).check(arch="sm_103a")
    ScaledCase("mxf4nvf4", n=16, swizzles=("none", "none"), **options).check(arch="sm_103a")


def test_wrong_depths():
    case = ScaledCase("mxf4", n=48, depth=96, column=96)
    with pytest.raises(EmulatorError, match="K = 96"):
        case.check()
    case.args[0] &= ~(1 << 52)
    with pytest.raises(EmulatorError, match="go on in the next buffer"):
        case.check(arch="sm_103a")
    case = ScaledCase("mxf4", n=24, depth=96)
    with pytest.raises(EmulatorError, match="multiple of 16"):
        case.check(arch="sm_103a")
    with pytest.raises(EmulatorError, match="A in tensor memory with K = 96"):
        ScaledCase("mxf4", n=48, depth=96).check(a="[%r2+400]", arch="sm_103a")


@pytest.mark.parametrize("m", [128, 256])
@pytest.mark.parametrize("n", [16, 160, 256])
def test_columns_of_pairs(m, n):
    case = ScaledCase("mxf8f6f4", "e4m3", "e3m2", m=m, n=n, group=2, ids=(3, 1))
    case.check()
    case.store_a()
    case.check(a="[%r2+400]")


@pytest.mark.parametrize(("kind", "scale", "block"), [("mxf8f6f4", "ue8m0", 32), *FP4])
def test_extreme_scale_factors(kind, scale, block):
    """Zero, NaN, overflow, and accumulators that are infinite or NaN."""
    case = ScaledCase(kind, "e4m3" if kind == "mxf8f6f4" else "e2m1", scale=scale, block=block)
    case.sa[:9] = np.array([0, 1, 254, 255, 126, 127, 128, 8, 7], np.uint8)[:, None]
    case.sb[:5] = np.array([0, 1, 254, 255, 127], np.uint8)[:, None]
    case.store_scales()
    expected = case.expected()
    assert np.isnan(expected).any() and np.isfinite(expected).any()
    case.check(expected=expected)


def test_special_accumulators():
    case = ScaledCase("mxf4", n=16)
    case.c[0], case.c[1], case.c[2] = np.inf, -np.inf, np.nan
    case.sa[1] = 255
    case.store(case.cells, case.c)
    case.store_scales()
    c, case.c = case.c, np.where(np.isfinite(case.c), case.c, np.float32(0))
    expected = case.expected()
    case.c = c
    expected[0] = np.inf
    expected[1:3] = np.uint32(0x7FFFFFFF).view(np.float32)
    case.check(expected=expected)


# --- reports ------------------------------------------------------------------------------------


def test_copies_that_differ():
    case = ScaledCase("mxf8f6f4", n=16)
    case.cells[0, 40, SFA_AT] ^= 1
    with pytest.warns(EmulatorWarning, match="differ between the quarters"):
        case.check()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda d: d | 1, "the sparsity selector"),
        (lambda d: d | 4, "sparse"),
        (lambda d: d | 8, "reserved bits"),
        (lambda d: d & ~(1 << 23), "ue4m3"),
        (lambda d: d | 1 << 27, "M is 128"),
        (lambda d: d | 1 << 24, "reserved bits"),
        (lambda d: d & ~(63 << 17), "N is a multiple of 8"),
        (lambda d: d | 7 << 7, "type code"),
        (lambda d: d | 1 << 31, "reserved bits"),
    ],
)
def test_descriptors_that_do_not_exist(change, complaint):
    case = ScaledCase("mxf8f6f4", n=16)
    case.args[2] = change(case.args[2])
    if complaint == "M is 128":
        case.args[2] = case.args[2] & ~(3 << 27) | 2 << 27
    with pytest.raises(EmulatorError, match=complaint):
        case.check()


def test_ids_that_do_not_exist():
    for block, sfa, sfb in ((32, 1, 0), (32, 0, 3), (16, 2, 0), (16, 0, 2)):
        case = ScaledCase("mxf4nvf4", block=block, n=16)
        case.args[2] |= sfa << 29 | sfb << 4
        with pytest.raises(EmulatorError, match="scale factors a row"):
            case.check()


@pytest.mark.parametrize(
    ("sfa", "complaint"), [(1 << 16 | 4, "from 0 on"), (510, "scale factors of tcgen05.mma")]
)
def test_scale_factors_in_a_wrong_place(sfa, complaint):
    case = ScaledCase("mxf8f6f4", n=16)
    text = build(one_cta(mma(case.kind, "", sfa=sfa)), shared_bytes=64 * 1024, params=PARAMS)
    with pytest.raises(EmulatorError, match=complaint) as caught:
        run(text, case.cells[0], case.images[0], case.args)
    assert caught.value.kind == "tmem"


def test_addresses_of_factors_may_repeat_their_ids():
    ScaledCase("mxf8f6f4", n=32, ids=(1, 1)).check(high=1 << 30)
    with pytest.raises(EmulatorError, match="from 0 on"):
        ScaledCase("mxf8f6f4", n=32, ids=(2, 2)).check(high=1 << 30)


STORE = f" tcgen05.st.sync.aligned.32x32b.x4.b32 [%r3+{SFA_AT}], {{%v0, %v1, %v2, %v3}};"
WAIT = " tcgen05.wait::st.sync.aligned;"
MEET = """
 tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;"""


@pytest.mark.parametrize("schedule", ["late", "eager", 1])
@pytest.mark.parametrize(
    ("before", "kind"),
    [
        (STORE + WAIT + MEET, None),
        (STORE + MEET, "missing-wait"),
        (STORE + WAIT + " bar.sync 0;", "missing-tcgen05-fence"),
        (STORE + WAIT, "missing-wait"),
    ],
)
def test_scale_factors_that_threads_store_must_be_ordered(before, kind, schedule):
    case = ScaledCase("mxf8f6f4", n=16)
    load = f" tcgen05.ld.sync.aligned.32x32b.x4.b32 {{%v0, %v1, %v2, %v3}}, [%r3+{SFA_AT}];"
    text = load + " tcgen05.wait::ld.sync.aligned;" + before + one_cta(mma(case.kind, ""))
    text = build(text, shared_bytes=64 * 1024, params=PARAMS)
    arguments = (text, case.cells[0], case.images[0], case.args)
    if kind is None:
        run(*arguments, sanitize=True, schedule=schedule)
        return
    with pytest.raises(EmulatorError, match="scale factors") as caught:
        run(*arguments, sanitize=True, schedule=schedule)
    assert caught.value.kind == kind


def forms():
    """Every spelling, right and wrong."""
    vectors = ("", ".scale_vec::1X", ".scale_vec::2X", ".scale_vec::4X", ".block16", ".block32")
    for kind, vector, group in itertools.product(
        ("mxf8f6f4", "mxf4", "mxf4nvf4", "f8f6f4"), vectors, (1, 2)
    ):
        for more in ("", ".collector::a::fill", ".ashift", ".collector::b0::use"):
            yield (
                f"tcgen05.mma.cta_group::{group}.kind::{kind}.block_scale{vector}{more} "
                "[%r1], [%r2], %d2, %r3, [%r4], [%r5], %p1;"
            )
    start = "tcgen05.mma.cta_group::1.kind::mxf8f6f4"
    yield f"{start} [%r1], %d1, %d2, %r3, %p1;"
    yield f"{start}.block_scale [%r1], %d1, %d2, %r3, %p1;"
    yield f"{start}.block_scale [%r1], %d1, %d2, %r3, [%r4], [%r5], %p1, 1;"
    yield f"{start}.block_scale [%r1], %d1, %d2, %r3, [%r4], [%r5], {{%r6, %r7, %r8, %r9}}, %p1;"
    start = "tcgen05.mma.ws.cta_group::1.kind::mxf4.block_scale"
    yield f"{start} [%r1], %d1, %d2, %r3, [%r4], [%r5], %p1;"


HEAD = HEADER + ".visible .entry k() {\n .reg .b32 %r<20>; .reg .b64 %d<9>; .reg .pred %p<9>;\n"


def decodes(line):
    try:
        return not Device("sm_100a").load_ptx(f"{HEAD}{line}\nret;\n}}\n").unsupported
    except EmulatorError:
        return False


def test_forms_are_those_of_ptxas(tmp_path):
    for group in (1, 2):  # a kernel has one of them
        lines = [line for line in forms() if f"cta_group::{group}." in line]
        accepted = accepted_by_ptxas(HEAD, lines, "sm_100a", tmp_path)
        assert {True, False} == set(accepted)
        for line, fine in zip(lines, accepted, strict=True):
            assert decodes(line) == fine, line
