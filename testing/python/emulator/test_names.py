"""Which names a block may declare, as ptxas has it; all unsupported instructions are named."""

import re
import subprocess

import numpy as np
import pytest
from ptx_kernels import HEADER

from tilelang.emulator import Device, EmulatorError
from tilelang.runtime.toolchain import ToolNotFoundError, find_ptxas

BODIES = {
    ".reg .b32 a; .reg .b32 a<2>; mov.b32 a, 1; mov.b32 a1, a;": True,
    ".reg .b32 a<2>; .reg .b32 a; mov.b32 a, 1; mov.b32 a1, a;": True,
    ".reg .b32 a1; .reg .b32 a<2>;": False,
    ".reg .b32 a<2>; .reg .b32 a1;": False,
    ".reg .b32 a2; .reg .b32 a<2>;": True,
    ".reg .b64 a; .reg .b64 a<1>; mov.b64 a, 1; mov.b64 a0, a;": True,
    ".reg .b64 a0; .reg .b32 a<1>; mov.b32 a0, 1;": True,
    ".reg .b64 a0; .reg .b32 a<1>; mov.b64 a0, 1;": False,
    ".reg .b64 a01; .reg .b32 a<2>; mov.b32 a01, 1;": True,
    ".reg .b32 a<1>; .reg .b64 a0;": False,
    ".shared .b32 a0; .reg .b32 a<1>;": True,
    ".reg .b32 a<2>; .reg .b32 a2;": True,
    ".reg .b32 a<2>; .reg .b32 a<1>;": False,
    ".reg .b32 a<2>; { .reg .b32 a1; .reg .b32 a<9>; }": False,
    ".reg .b32 a<2>; { .reg .b64 a1; mov.b64 a1, 0; }": True,
    ".reg .b32 a<2>; { .reg .b64 a<2>; mov.b64 a1, 0; }": True,
    ".reg .b32 a, b, a;": False,
    ".shared .b32 a1; .reg .b32 a<2>;": False,
    ".reg .b32 a<2>; .shared .b32 a1;": False,
    ".shared .b32 a; .reg .b32 a<2>; mov.u32 a1, a;": True,
    ".reg .b32 a<20>; .reg .b32 a1<2>;": True,
    ".reg .b32 a1<20>; mov.b32 a12, 0;": False,
    ".reg .b32 a<2>; mov.b32 a2, 0;": False,
    ".reg .b32 a<2>; mov.b32 a, 0;": False,
    ".reg .v2 .b32 a<3>; mov.b32 a2.y, 0; mov.b32 a0.x, a2.y;": True,
    ".reg .v2 .b32 a<3>; mov.b32 a3.y, 0;": False,
    ".local .b32 a = 5;": False,
    ".local .align 3 .b32 a;": False,
}


def program(body):
    return f"{HEADER}.entry k() {{ {body} ret; }}"


@pytest.mark.parametrize("body", BODIES)
def test_declarations(body, tmp_path):
    if BODIES[body]:
        Device().load_ptx(program(body))["k"].launch(1, 1, [])
    else:
        with pytest.raises(EmulatorError) as caught:
            Device().load_ptx(program(body))
        assert caught.value.kind in ("syntax", "illegal-operand")
    try:
        ptxas = find_ptxas()
    except ToolNotFoundError:
        return
    path = tmp_path / "k.ptx"
    path.write_text(program(body))
    done = subprocess.run([ptxas, "-arch=sm_100a", path, "-o", tmp_path / "k"], capture_output=True)
    assert (done.returncode == 0) == BODIES[body]


def test_a_register_beside_a_range_of_its_name():
    """As Triton converts pairs of 8-bit floats: 0x38 is 1 in e4m3."""
    body = (
        ".reg .b64 %d; .reg .b16 %s; .reg .b32 %w; ld.param.u64 %d, [out]; mov.b16 %s, 0x4038;"
        " { .reg .b32 a; .reg .f16 a<2>; cvt.rn.f16x2.e4m3x2 a, %s; mov.b32 {a0, a1}, a;"
        " mov.b32 %w, {a1, a0}; } st.global.b32 [%d], %w; ret;"
    )
    out = np.zeros(2, np.float16)
    Device().load_ptx(f"{HEADER}.entry k(.param .u64 out) {{ {body} }}")["k"].launch(1, 1, [out])
    assert out.tolist() == [2, 1]


def test_shared_variables_of_one_name_in_two_functions():
    """Each has its own memory, the same in every call."""
    text = HEADER + (
        ".func (.reg .b32 r) f(.reg .b32 v) { .shared .b32 tile; ld.shared.u32 r, [tile];"
        " st.shared.u32 [tile], v; ret; }"
        ".func (.reg .b32 r) g(.reg .b32 v) { .shared .b32 tile; ld.shared.u32 r, [tile];"
        " st.shared.u32 [tile], v; ret; }"
        ".entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .b64 %d; ld.param.u64 %d, [out];"
    )
    for i, function in enumerate("fgfg"):
        text += f" mov.b32 %r0, {i + 1}; call.uni (%r1), {function}, (%r0);"
        text += f" st.global.u32 [%d+{4 * i}], %r1;"
    out = np.zeros(4, np.uint32)
    Device().load_ptx(text + " ret; }")["k"].launch(1, 1, [out])
    assert out.tolist() == [0, 0, 1, 2]


def test_all_unsupported_instructions_are_named():
    name = "_ZN5outer5innerILi3EEEvPf"  # void outer::inner<3>(float*)
    long = "_Z4longI" + "N1aI" * 30 + "i" + "EE" * 30 + "Evv"
    vset4 = "vset4.u32.u32.eq %r0, %r1, %r2, %r3;"
    text = (
        HEADER
        + f""".entry {name}() {{ .reg .b32 %r<4>;
      {vset4}
      vset2.u32.u32.eq %r0, %r1, %r2, %r3;
      {vset4} {vset4}
      ret; }}
      .entry {long}() {{ .reg .b32 %r<4>; {vset4} ret; }}
      .entry fine() {{ ret; }}"""
    )
    module = Device().load_ptx(text)
    module["fine"].launch(1, 1, [])
    with pytest.raises(EmulatorError) as caught:
        module[name]
    assert "outer::inner<3>(float*)" in str(caught.value) and name not in str(caught.value)
    assert caught.value.kernel == name
    assert caught.value.ptx_line == 5
    first, second = caught.value.reason.split("\n")
    assert "vset4.u32.u32.eq" in first and "(3 times)" in first
    assert "vset2.u32.u32.eq" in second and "line 6" in second and "times" not in second
    with pytest.raises(EmulatorError) as caught:
        module[long]
    assert "  kernel: void long<a<a<" in str(caught.value)
    assert len(re.search("kernel: (.*)", str(caught.value))[1]) < 110
    counts = {"vset4": 4, "vset2": 1}
    assert len(module.unsupported) == len(counts)
    for what, count in module.unsupported.items():
        assert counts[what.split("'")[1][:5]] == count
