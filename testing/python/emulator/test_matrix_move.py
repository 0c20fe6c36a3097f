"""ldmatrix and stmatrix: what ptxas accepts, and the fragments of the PTX ISA.

A byte of a fragment is followed by its place in the matrix: thread t holds, of an 8 x 8 matrix of
16-bit elements, row t / 4 and the columns 2 (t % 4) and the next; of a 16 x 16 matrix of bytes,
transposed, the column t / 4 (and the one 8 further in a second register) and four rows from
4 (t % 4) on; of the 16 x 8 bytes that stmatrix stores by columns, what an MMA leaves in its
accumulators.
"""

import itertools

import numpy as np
import pytest
from ptx_kernels import HEADER, accepted_by_ptxas

from tilelang.emulator import Device, EmulatorError
from tilelang.runtime.toolchain import ToolNotFoundError

LANES = np.arange(32)[:, None]
BYTES = np.arange(4)[None, :]


def kernel(instruction, registers):
    regs = ", ".join(f"%v{i}" for i in range(registers))
    loads = instruction.startswith("ld")
    operands = f"{{{regs}}}, [%r1]" if loads else f"[%r1], {{{regs}}}"
    move = "".join(
        f" {'st' if loads else 'ld'}.global.b32 "
        + (f"[%d1+{4 * i}], %v{i};" if loads else f"%v{i}, [%d1+{4 * i}];")
        for i in range(registers)
    )
    line = "{%r4, %r5, %r6, %r7}"
    copy_in = f" ld.global.v4.b32 {line}, [%d2]; st.shared.v4.b32 [%r3], {line};"
    copy_out = f" ld.shared.v4.b32 {line}, [%r3]; st.global.v4.b32 [%d2], {line};"
    sync = " bar.warp.sync 0xffffffff;"
    body = f"{copy_in}{sync} {instruction} {operands};{move}"
    if not loads:
        body = f"{copy_in}{sync}{move} {instruction} {operands};{sync}{copy_out}"
    return HEADER + (
        ".visible .entry k(.param .u64 V, .param .u64 M, .param .u64 A) {\n"
        ".reg .b32 %r<9>; .reg .b32 %v<5>; .reg .b64 %d<5>; .shared .align 16 .b8 s[512];\n"
        "mov.u32 %r0, %tid.x; mov.u32 %r2, s; mad.lo.u32 %r3, %r0, 16, %r2;"
        f" ld.param.u64 %d1, [V]; mad.wide.u32 %d1, %r0, {4 * registers}, %d1;"
        " ld.param.u64 %d2, [M]; mad.wide.u32 %d2, %r0, 16, %d2;"
        " ld.param.u64 %d3, [A]; mad.wide.u32 %d3, %r0, 4, %d3; ld.global.u32 %r1, [%d3];"
        f" add.u32 %r1, %r1, %r2;\n{body}\n ret;\n}}"
    )


def place(form, part):
    """Line and byte in memory of each byte of a register: two arrays [lane][byte]."""
    group, member = LANES // 4, LANES % 4
    if form == "rows":
        line, byte = group, 4 * member + BYTES
    elif form == "columns":  # element (row, column) of the transposed matrix
        line, byte = 2 * member + BYTES // 2, 2 * group + BYTES % 2
    elif form == "bytes":
        line, byte = 4 * member + BYTES, group + 8 * part
    else:
        line, byte = 2 * member + BYTES % 2, group + 8 * (BYTES // 2)
    return np.broadcast_arrays(line, byte)


def unpacked(line, bits):
    """Sixteen elements of a line as bytes."""
    whole = int.from_bytes(line.tobytes(), "little")
    return [whole >> (bits * i) & ((1 << bits) - 1) for i in range(16)]


LOADS = [
    ("m8n8.x{}.shared.b16", (1, 2, 4), "rows", 8, 1, None),
    ("m8n8.x{}.trans.shared.b16", (1, 2, 4), "columns", 8, 1, None),
    ("m16n16.x{}.trans.shared.b8", (1, 2), "bytes", 16, 2, None),
    ("m16n16.x{}.trans.shared.b8x16.b4x16_p64", (1, 2), "bytes", 16, 2, 4),
    ("m16n16.x{}.trans.shared.b8x16.b6x16_p32", (1, 2), "bytes", 16, 2, 6),
    ("m8n16.x{}.shared.b8x16.b4x16_p64", (1, 2, 4), "rows", 8, 1, 4),
    ("m8n16.x{}.shared.b8x16.b6x16_p32", (1, 2, 4), "rows", 8, 1, 6),
]
STORES = [
    ("m8n8.x{}.shared.b16", (1, 2, 4), "rows"),
    ("m8n8.x{}.trans.shared.b16", (1, 2, 4), "columns"),
    ("m16n8.x{}.trans.shared.b8", (1, 2, 4), "store"),
]


@pytest.mark.parametrize(
    ("text", "count", "form", "lines", "parts", "bits"),
    [(text, n, *rest) for text, counts, *rest in LOADS for n in counts],
)
def test_load(text, count, form, lines, parts, bits):
    rng = np.random.default_rng(3)
    memory = rng.integers(0, 256, (32, 16), dtype=np.uint8)
    rows = rng.permutation(32)  # which line a thread's address names
    values = np.full((32, count * parts), 0xDEADBEEF, np.uint32)
    name = "ldmatrix.sync.aligned." + text.format(count)
    Device().load_ptx(kernel(name, count * parts))["k"].launch(
        1, 32, [values, memory, (16 * rows).astype(np.uint32)]
    )
    for matrix, part in itertools.product(range(count), range(parts)):
        data = memory[rows[matrix * lines : (matrix + 1) * lines]]
        if bits:
            data = np.array([unpacked(line, bits) for line in data], np.uint8)
        expected = np.ascontiguousarray(data[place(form, part)]).view(np.uint32)[:, 0]
        np.testing.assert_array_equal(values[:, matrix * parts + part], expected)


@pytest.mark.parametrize(
    ("text", "count", "form"), [(text, n, form) for text, counts, form in STORES for n in counts]
)
def test_store(text, count, form):
    rng = np.random.default_rng(4)
    memory = rng.integers(0, 256, (32, 16), dtype=np.uint8)
    values = rng.integers(0, 1 << 32, (32, count), dtype=np.uint32)
    rows = rng.permutation(32)
    expected = memory.copy()
    for matrix in range(count):
        data = np.zeros((8, 16), np.uint8)
        data[place(form, 0)] = values[:, matrix].copy().view(np.uint8).reshape(32, 4)
        expected[rows[8 * matrix : 8 * matrix + 8]] = data
    name = "stmatrix.sync.aligned." + text.format(count)
    Device().load_ptx(kernel(name, count))["k"].launch(
        1, 32, [values, memory, (16 * rows).astype(np.uint32)]
    )
    np.testing.assert_array_equal(memory, expected)


COMPONENTS = (
    ("ldmatrix", "stmatrix"),
    ("m8n8", "m16n16", "m8n16", "m16n8"),
    ("x1", "x2", "x4"),
    ("", ".trans"),
    ("b16", "b8", "b8x16.b4x16_p64", "b8x16.b6x16_p32"),
    (1, 2, 4),
)


def instruction(opcode, shape, count, trans, types, registers):
    regs = ", ".join(f"%r{i}" for i in range(registers))
    operands = f"{{{regs}}}, [sm]" if opcode == "ldmatrix" else f"[sm], {{{regs}}}"
    return f"{opcode}.sync.aligned.{shape}.{count}{trans}.shared.{types} {operands};"


def accepts(line):
    try:
        Device().load_ptx(f"{HEADER}.entry k() {{ {DECLARATIONS} {line} ret; }}")["k"]
    except EmulatorError as error:
        assert error.kind == "illegal-operand"
        return False
    return True


DECLARATIONS = ".reg .b32 %r<5>; .shared .align 16 .b8 sm[512];"


def test_forms_are_those_of_ptxas(tmp_path):
    """Every shape with every count, type and number of registers."""
    lines = [instruction(*chosen) for chosen in itertools.product(*COMPONENTS)]
    head = f"{HEADER}.entry k() {{ {DECLARATIONS}\n"
    try:
        accepted = accepted_by_ptxas(head, lines, "sm_100a", tmp_path)
    except ToolNotFoundError:
        pytest.skip("no ptxas")
    theirs = {line for line, legal in zip(lines, accepted, strict=True) if legal}
    assert 16 <= len(theirs) < 60
    assert {line for line in lines if accepts(line)} == theirs
