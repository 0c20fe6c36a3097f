"""wmma: loads, products and stores of every shape, type and layout, against NumPy."""

import itertools

import numpy as np
import pytest
from ptx_kernels import accepted_by_ptxas

from emulator import tensor_core_model as model
from tilelang.emulator import Device, EmulatorError

LARGE = ("m16n16k16", "m8n32k16", "m32n8k16")
SIZES = {name: tuple(map(int, name[1:].replace("n", " ").replace("k", " ").split()))
         for name in (*LARGE, "m16n16k8", "m8n8k4", "m8n8k32", "m8n8k128")}  # fmt: skip
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1,
        "f32": 32, "s32": 32}  # fmt: skip
DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32}
FORMS = [
    *((shape, "f16", "f16", c, d) for shape in LARGE for c, d in
      (("f16", "f16"), ("f32", "f32"), ("f16", "f32"))),
    *((shape, "bf16", "bf16", "f32", "f32") for shape in LARGE),
    ("m16n16k8", "tf32", "tf32", "f32", "f32"),
    ("m8n8k4", "f64", "f64", "f64", "f64"),
    *((shape, a, b, "s32", "s32") for shape in LARGE for a, b in (("s8", "s8"), ("u8", "u8"))),
    *(("m8n8k32", a, b, "s32", "s32") for a, b in (("s4", "s4"), ("u4", "u4"))),
    ("m8n8k128", "b1", "b1", "s32", "s32"),
]  # fmt: skip


def registers(kind, shape, role):
    m, n, k = SIZES[shape]
    if role in "cd":
        return m * n * BITS[kind] // 32 // max(32, BITS[kind])
    if kind == "f16":
        return 8
    return max(1, (m if role == "a" else n) * k * BITS[kind] // 32 // max(32, BITS[kind]))


def vector(kind, shape, role):
    letter = {"f64": "q", "f32": "f"}.get(kind, "b")
    first = {"a": 0, "b": 10, "c": 20, "d": 30}[role]
    return (
        "{" + ", ".join(f"%{letter}{first + i}" for i in range(registers(kind, shape, role))) + "}"
    )


def instructions(shape, a, b, c, d, layouts, space=".global", operation="", strides=True):
    """Load A, B and C, multiply, store D."""
    la, lb, lc, ld = layouts
    stride = [f", %r{i}" if strides else "" for i in range(4)]
    types = f"{d}.{c}" if a == "f16" else f"{d}.{a}.{b}.{c}"
    va, vb, vc, vd = (
        vector(kind, shape, role) for kind, role in zip((a, b, c, d), "abcd", strict=True)
    )
    load = "wmma.load.{}.sync.aligned.{}.{}{}.{} {}, [{}]{};"
    return [
        load.format("a", la, shape, space, a, va, "%d0", stride[0]),
        load.format("b", lb, shape, space, b, vb, "%d1", stride[1]),
        load.format("c", lc, shape, space, c, vc, "%d2", stride[2]),
        f"wmma.mma{operation}.sync.aligned.{la}.{lb}.{shape}.{types} {vd}, {va}, {vb}, {vc};",
        f"wmma.store.d.sync.aligned.{ld}.{shape}{space}.{d} [%d3], {vd}{stride[3]};",
    ]


DECLARE = (
    " .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .b32 %b<40>; .reg .f32 %f<40>; .reg .f64 %q<40>;\n"
)


def kernel(lines, target):
    parameters = ", ".join([*(f".param .u64 P{i}" for i in range(4)),
                            *(f".param .u32 S{i}" for i in range(4))])  # fmt: skip
    loads = "".join(f" ld.param.u64 %d{i}, [P{i}]; ld.param.u32 %r{i}, [S{i}];" for i in range(4))
    head = f".version 9.0\n.target {target}\n.address_size 64\n.visible .entry k({parameters})"
    return f"{head} {{\n{DECLARE}{loads}\n" + "\n".join(lines) + "\nret;\n}\n"


def small(rng, kind, shape):
    """Codes and values of small whole numbers."""
    if kind == "b1":
        bits = rng.integers(0, 2, shape)
        return bits, bits
    low = 0 if kind[0] == "u" else -4
    values = rng.integers(low, 5, shape)
    return values, values


def in_memory(kind, values, column_major, pad):
    """An array with ``pad`` elements more a line, and the stride in elements."""
    lines = values.T if column_major else values
    length = lines.shape[1] + pad
    full = np.zeros((len(lines), length), np.int64)
    full[:, : lines.shape[1]] = lines
    if kind == "b1":
        return np.packbits(full.astype(np.uint8), axis=1, bitorder="little"), length
    if kind in ("s4", "u4"):
        return ((full[:, ::2] & 15) | (full[:, 1::2] & 15) << 4).astype(np.uint8), length
    if kind == "bf16":
        return (full.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16), length
    dtype = {"tf32": np.float32, "s8": np.int8, "u8": np.uint8, **DTYPES}.get(kind)
    return full.astype(dtype), length


def run(form, layouts, target="sm_90a", operation="", pads=True, seed=0):
    shape, a, b, c, d = form
    m, n, k = SIZES[shape]
    rng = np.random.default_rng([seed, m, n, k])
    left, right, start = (small(rng, kind, size)[0] for kind, size in
                          ((a, (m, k)), (b, (k, n)), ("s32", (m, n))))  # fmt: skip
    pad = [128 // BITS[kind] if pads else 0 for kind in (a, b, c, d)]
    arrays, strides = zip(
        *(in_memory(kind, values, layout == "col", each) for kind, values, layout, each in
          zip((a, b, c), (left, right, start), layouts[:3], pad[:3], strict=True)), strict=True
    )  # fmt: skip
    lines, length = (n, m) if layouts[3] == "col" else (m, n)
    out = np.full((lines, length + pad[3]), 77, DTYPES[d])
    text = kernel(instructions(*form, layouts, operation=operation, strides=pads), target)
    Device(target).load_ptx(text)["k"].launch(
        1, 32, [*arrays, out, *strides, length + pad[3]])  # fmt: skip
    if a == "b1":
        both = (
            (left[:, None] ^ right.T[None]) if "xor" in operation else left[:, None] & right.T[None]
        )
        expected = both.sum(axis=2) + start
    else:
        expected = left @ right + start
    got = out[:, :length].T if layouts[3] == "col" else out[:, :length]
    np.testing.assert_array_equal(got, expected.astype(DTYPES[d]))
    assert (out[:, length:] == 77).all()


@pytest.mark.parametrize("form", FORMS, ids="-".join)
def test_every_layout(form):
    free = BITS[form[1]] >= 8
    for la, lb in itertools.product(("row", "col"), repeat=2) if free else [("row", "col")]:
        for lc, ld in (("row", "col"), ("col", "row")):
            operation = ".xor.popc" if form[1] == "b1" else ""
            run(form, (la, lb, lc, ld), operation=operation)
    run(form, ("row", "col", "row", "row"), operation=".and.popc" if form[1] == "b1" else "",
        pads=False)  # fmt: skip


def test_sums_are_those_of_the_tensor_core():
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal((16, 16)).astype(np.float16) for _ in range(2))
    c = rng.standard_normal((16, 16)).astype(np.float32)
    out = np.zeros((16, 16), np.float32)
    form = ("m16n16k16", "f16", "f16", "f32", "f32")
    text = kernel(instructions(*form, ("row", "col", "row", "row")), "sm_90a")
    Device("sm_90a").load_ptx(text)["k"].launch(1, 32, [a, b, c, out, 16, 16, 16, 16])
    expected = model.reference(a.astype(np.float64), b.astype(np.float64), c, "f16", "f16", "f32")
    np.testing.assert_array_equal(out, expected)


def spellings():
    for form in FORMS:
        for layouts in (("row", "col", "row", "row"), ("col", "row", "col", "col")):
            operation = ".and.popc" if form[1] == "b1" else ""
            yield from instructions(*form, layouts, operation=operation)
    yield from instructions("m16n16k8", "f16", "f16", "f32", "f32", ("row",) * 4)
    yield from instructions("m16n16k16", "tf32", "tf32", "f32", "f32", ("row",) * 4)
    yield from instructions("m16n16k16", "s8", "s8", "s32", "s32", ("row",) * 4, space=".shared")
    yield from instructions("m16n16k16", "s8", "u8", "s32", "s32", ("row",) * 4)
    yield from instructions("m8n8k32", "s4", "u4", "s32", "s32", ("row", "col") * 2)
    yield from instructions("m16n16k16", "bf16", "bf16", "f16", "f16", ("row",) * 4)
    yield from instructions("m16n16k16", "s8", "s8", "s32", "s32", ("row",) * 4, strides=False)


def test_forms_are_those_of_ptxas(tmp_path):
    head = f".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k() {{\n{DECLARE}"
    lines = sorted(set(spellings()))
    for line, fine in zip(lines, accepted_by_ptxas(head, lines, "sm_90a", tmp_path), strict=True):
        try:
            ours = not Device("sm_90a").load_ptx(f"{head}{line}\nret;\n}}\n").unsupported
        except EmulatorError:
            ours = False
        assert ours == fine, line


@pytest.mark.parametrize(
    ("at", "stride", "complaint"),
    [(16, 16, "multiple of 32"), (0, 12, "at least 16"), (0, 20, "multiple of 16 bytes")],
)
def test_addresses_and_strides_that_are_not_allowed(at, stride, complaint):
    a = np.zeros(1024, np.float16)
    line = "wmma.load.a.sync.aligned.row.m16n16k16.global.f16"
    text = kernel([f"add.u64 %d0, %d0, {at};", f"{line} {vector('f16', 'm16n16k16', 'a')}, "
                   "[%d0], %r0;"], "sm_90a")  # fmt: skip
    with pytest.raises(EmulatorError, match=complaint):
        Device("sm_90a").load_ptx(text)["k"].launch(1, 32, [a, a, a, a, stride, 0, 0, 0])


def test_time_is_refused():
    text = kernel(instructions("m16n16k16", "f16", "f16", "f32", "f32", ("row",) * 4), "sm_90a")
    half, full = np.zeros((16, 16), np.float16), np.zeros((16, 16), np.float32)
    with pytest.raises(EmulatorError, match="cannot be timed"):
        Device("sm_90a").load_ptx(text)["k"].launch(
            1, 32, [half, half, full, full, 16, 16, 16, 16], timing=True)  # fmt: skip


def test_the_functions_of_cuda():
    """With a tile in shared memory, and elements of a fragment that are changed one by one."""
    source = """
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void k(const half* a, const half* b, float* c) {
  __shared__ half tile[256];
  for (int i = threadIdx.x; i < 256; i += 32) tile[i] = a[i];
  __syncwarp();
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 1.0f);
  wmma::load_matrix_sync(left, tile, 16);
  wmma::load_matrix_sync(right, b, 16);
  wmma::mma_sync(sum, left, right, sum);
  for (int i = 0; i < sum.num_elements; ++i) sum.x[i] *= 2.0f;
  wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}
"""
    rng = np.random.default_rng(6)
    a, b = (rng.integers(-8, 9, (16, 16)).astype(np.float16) for _ in range(2))
    c = np.full((16, 16), np.nan, np.float32)
    Device("sm_90a").load_cuda(source)["k"].launch(1, 32, [a, b, c], sanitize=True)
    np.testing.assert_array_equal(c, 2 * (a.astype(np.float32) @ b.astype(np.float32).T + 1))
