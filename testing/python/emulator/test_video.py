"""Video instructions of two and four numbers, against NumPy, ptxas and the functions of CUDA."""

import itertools

import numpy as np
import pytest
from ptx_kernels import accepted_by_ptxas, elementwise

from tilelang.emulator import Device, EmulatorError

OPERATIONS = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    "vavrg": lambda a, b: (a + b + (a + b >= 0)) >> 1,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
}
TYPES = ("u32", "s32")


def parts(words, count, kind):
    name = f"{'i' if kind == 's32' else 'u'}{4 // count}"
    return words.view(name).reshape(-1, count).astype(np.int64)


def inputs():
    rng = np.random.default_rng(0)
    words = [rng.integers(0, 1 << 32, 500, dtype=np.uint32) for _ in range(3)]
    words[0][:4] = words[1][:4] = [0, 0xFFFFFFFF, 0x80808080, 0x7F7F7F7F]
    words[1][4:8] = [0x80808080, 0x7F7F7F7F, 0xFFFFFFFF, 0]
    return words


@pytest.mark.parametrize("tail", ["", ".sat", ".add"])
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", OPERATIONS)
def test_results(name, count, tail):
    a, b, c = inputs()
    for types in itertools.product(TYPES, repeat=3):
        found = elementwise(
            f"{name}{count}.{'.'.join(types)}{tail} %out, %in0, %in1, %in2;", [a, b, c], "u4"
        )
        exact = OPERATIONS[name](parts(a, count, types[1]), parts(b, count, types[2]))
        if tail == ".add":
            expected = (c + exact.sum(axis=1)).astype(np.uint32)
        else:
            bits = 32 // count
            low = -(1 << bits - 1) if types[0] == "s32" else 0
            exact = np.clip(exact, low, low + (1 << bits) - 1) if tail else exact
            expected = exact.astype(f"i{4 // count}").reshape(-1).view(np.uint32)
        np.testing.assert_array_equal(found, expected, err_msg=str(types))


def test_forms_are_those_of_ptxas(tmp_path):
    head = (
        ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k() {\n.reg .b32 %r<9>;\n"
    )
    lines = [
        f"{name}{count}.{types}{tail} %r0, %r1, %r2, %r3;"
        for name, count, types, tail in itertools.product(
            OPERATIONS, (2, 4), ("u32.u32.u32", "s32.u32.s32", "u32.u32", "f32.u32.u32"),
            ("", ".sat", ".add", ".sat.add"),
        )
    ]  # fmt: skip
    for line, fine in zip(lines, accepted_by_ptxas(head, lines, "sm_90a", tmp_path), strict=True):
        try:
            ours = not Device("sm_90a").load_ptx(f"{head}{line}\nret;\n}}\n").unsupported
        except EmulatorError:
            ours = False
        assert ours == fine, line


def test_the_functions_of_cuda():
    calls = [
        "__vabsdiffu4(a, b)",
        "__vsadu4(a, b)",
        "__vsads4(a, b)",
        "__vsadu2(a, b)",
        "__vabs4(a)",
    ]
    body = " ".join(f"o[{i} * n + i_] = {call};" for i, call in enumerate(calls))
    source = f"""
extern "C" __global__ void k(unsigned* o, const unsigned* p, const unsigned* q, int n) {{
  for (int i_ = threadIdx.x; i_ < n; i_ += 32) {{ unsigned a = p[i_], b = q[i_]; {body} }} }}"""
    a, b, _ = inputs()
    out = np.zeros((len(calls), len(a)), np.uint32)
    Device("sm_90a").load_cuda(source)["k"].launch(1, 32, [out, a, b, len(a)])
    unsigned = np.abs(parts(a, 4, "u32") - parts(b, 4, "u32"))
    signed = np.abs(parts(a, 4, "s32") - parts(b, 4, "s32"))
    halves = np.abs(parts(a, 2, "u32") - parts(b, 2, "u32"))
    np.testing.assert_array_equal(out[0], unsigned.astype(np.uint8).reshape(-1).view(np.uint32))
    np.testing.assert_array_equal(out[1], unsigned.sum(axis=1))
    np.testing.assert_array_equal(out[2], signed.sum(axis=1))
    np.testing.assert_array_equal(out[3], halves.sum(axis=1))
    magnitudes = np.abs(parts(a, 4, "s32")).astype(np.uint8)
    np.testing.assert_array_equal(out[4], magnitudes.reshape(-1).view(np.uint32))
