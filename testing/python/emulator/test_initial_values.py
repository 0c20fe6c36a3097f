"""Initial values of module variables: constants, and addresses with offsets."""

import numpy as np
import pytest
from ptx_kernels import HEADER

from tilelang.emulator import Device, EmulatorError

BASES = ".global .align 4 .u32 numbers[4] = {10, 20, 30, 40};\n"
BASES += ".const .align 4 .u32 constants[4] = {50, 60, 70, 80};\n"


def load(variable, body=""):
    entry = (
        f".visible .entry k(.param .u64 out) {{ .reg .b64 %d<9>; .reg .b32 %r<9>;\n{body}\nret; }}"
    )
    return Device("sm_100a").load_ptx(f"{HEADER}{BASES}{variable}\n{entry}")["k"]


@pytest.mark.parametrize("space", ["global", "const"])
@pytest.mark.parametrize(
    ("value", "load_as", "expected"),
    [
        ("generic(numbers)", "ld", 10),
        ("generic(numbers)+4", "ld", 20),
        ("generic(numbers)+4+8", "ld", 40),
        ("numbers+8", "ld.global", 30),
        ("generic(constants)", "ld", 50),
        ("generic(constants)+12", "ld", 80),
        ("constants+4", "ld.const", 60),
    ],
)
def test_address(space, value, load_as, expected):
    out = np.zeros(3, np.uint32)
    kernel = load(
        f".{space} .align 8 .u64 pointers[3] = {{1, {value}, 3}};",
        f"ld.param.u64 %d1, [out]; ld.{space}.u64 %d2, [pointers+8]; {load_as}.u32 %r1, [%d2];"
        f"ld.{space}.u32 %r2, [pointers]; ld.{space}.u32 %r3, [pointers+16];"
        "st.global.u32 [%d1], %r1; st.global.u32 [%d1+4], %r2; st.global.u32 [%d1+8], %r3;",
    )
    kernel.launch(1, 1, [out])
    assert out.tolist() == [expected, 1, 3]


@pytest.mark.parametrize(
    "values",
    [
        "1 2",
        "1, 2,",
        "generic(5)+4",
        "generic(numbers)*2",
        "5+4",
        "0xFF(numbers)",
        "generic(numbers+4)",
    ],
)
def test_what_is_no_value(values):
    with pytest.raises(EmulatorError) as caught:
        load(f".global .align 8 .u64 pointers[2] = {{{values}}};")
    assert caught.value.kind == "syntax"
    assert "pointers" in caught.value.ptx_text


def test_address_of_a_function():
    """Declared before a table names it, and defined after."""
    head = ".func (.param .b32 r) g (.param .b32 x)"
    table = f"{head};\n.func f() {{ ret; }}\n.global .align 8 .u64 table[2] = {{g, f}};\n"
    body = (
        "ld.param.u64 %d1, [out]; mov.u64 %d2, g; ld.global.u64 %d3, [table];"
        "ld.global.u64 %d4, [table+8]; st.global.u64 [%d1], %d2; st.global.u64 [%d1+8], %d3;"
        "st.global.u64 [%d1+16], %d4;"
    )
    out = np.zeros(3, np.uint64)
    load(f"{table}{head} {{ ret; }}", body).launch(1, 1, [out])
    assert out[0] == out[1] != out[2] and out.all()
    with pytest.raises(EmulatorError, match="load its address with mov"):
        load(table, "mov.u64 %d2, g+8;").launch(1, 1, [out])
    with pytest.raises(EmulatorError, match="load its address with mov"):
        load(table, "add.u64 %d2, %d2, g;").launch(1, 1, [out])
