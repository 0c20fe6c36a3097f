"""What nothing has written may be loaded, as compilers do, but not used."""

import warnings

import numpy as np
import pytest
from ptx_kernels import HEADER

from tilelang.emulator import Device, EmulatorError, EmulatorWarning

# Thread 0 writes s[0] and s[2]; all threads load s[0..3] and store what `use` leaves in %r9.
KERNEL = (
    HEADER
    + """
.visible .entry k(.param .u64 out) {{
  .reg .b32 %r<20>; .reg .b64 %d<4>; .reg .pred %p<4>;
  .shared .align 16 .b32 s[4];
  ld.param.u64 %d0, [out];
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %d1, %r0, 4;
  add.u64 %d0, %d0, %d1;
  setp.eq.u32 %p0, %r0, 0;
  mov.b32 %r10, 5; mov.b32 %r11, 7;
  mov.u32 %r12, s;
  @%p0 st.shared.b32 [%r12], %r10;
  @%p0 st.shared.b32 [%r12+8], %r11;
  bar.sync 0;
  {use}
  st.global.b32 [%d0], %r9;
  ret;
}}
"""
)
LOAD = "ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r12];"
FINE = {
    "unused": (LOAD + "add.s32 %r9, %r1, %r3;", 12),
    "sink": ("ld.shared.v4.b32 {%r1, _, %r3, _}, [%r12]; add.s32 %r9, %r1, %r3;", 12),
    "moved": (LOAD + "mov.b32 %r5, %r2; add.s32 %r6, %r5, 1; mov.b32 %r9, %r1;", 5),
    "not selected": (LOAD + "setp.ne.u32 %p1, %r1, 5; selp.b32 %r9, %r2, %r3, %p1;", 7),
    "overwritten": (LOAD + "add.s32 %r9, %r2, %r2; mov.b32 %r9, %r3;", 7),
    "unused bytes": (
        '.pragma "used_bytes_mask 15"; ld.shared.b64 %d2, [%r12]; cvt.u32.u64 %r9, %d2;',
        5,
    ),
}
USED = {
    "stored": LOAD + "mov.b32 %r9, %r2;",
    "computed with": LOAD + "add.s32 %r5, %r2, 1; mul.lo.s32 %r9, %r5, 2;",
    "selected": LOAD + "setp.eq.u32 %p1, %r1, 5; selp.b32 %r9, %r2, %r3, %p1;",
    "compared": LOAD + "setp.eq.u32 %p1, %r2, 5; mov.b32 %r9, %r1;",
    "shuffled": LOAD + "shfl.sync.idx.b32 %r9, %r2, 0, 31, -1;",
    "one byte of two": (
        '.pragma "used_bytes_mask 255"; ld.shared.b64 %d2, [%r12]; cvt.u32.u64 %r9, %d2;'
    ),
    "not through its pragma": (
        '.pragma "used_bytes_mask 15"; ld.shared.b32 %r1, [%r12]; ld.shared.b32 %r9, [%r12+4];'
    ),
}


def run(use, threads=32):
    out = np.full(threads, -1, np.int32)
    Device().load_ptx(KERNEL.format(use=use))["k"].launch(1, threads, [out])
    return out


@pytest.mark.parametrize("name", FINE)
def test_no_warning_for_what_is_not_used(name):
    use, value = FINE[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (run(use) == value).all()


@pytest.mark.parametrize("name", USED)
def test_a_warning_names_load_and_use(name):
    with pytest.warns(EmulatorWarning, match=r"PTX line \d+ uses .* nothing has written: tile "):
        run(USED[name])


def test_no_race_for_bytes_that_are_not_used():
    """Lane 1 writes s[1] while all load s[0] and s[2], without a barrier; s[1] itself is a race."""
    write = "setp.eq.u32 %p1, %r0, 1; @%p1 st.shared.b32 [%r12+4], %r0;"
    sink = "ld.shared.v4.b32 {%r1, _, %r9, _}, [%r12];"
    assert (run(write + sink) == 7).all()
    mask = '.pragma "used_bytes_mask 0x0f0f";' + LOAD + "mov.b32 %r9, %r3;"
    assert (run(write + mask) == 7).all()
    with pytest.raises(EmulatorError) as caught:
        run(write + LOAD + "mov.b32 %r9, %r2;")
    assert caught.value.kind == "race"


@pytest.mark.parametrize("load", ["{%r1, _, _, _}, [%r12+16]", "{%r1, _, _, _}, [%r12+4]"])
def test_vectors_begin_in_memory_that_exists(load):
    with pytest.raises(EmulatorError) as caught:
        run(f"ld.shared.v4.b32 {load}; mov.b32 %r9, 0;")
    assert caught.value.kind in ("out-of-bounds", "misaligned")


ENDS = {
    "said by a pragma": ('.pragma "used_bytes_mask 4095";', "mov.b32 %r5, %r4;"),
    "in no other instruction": ("", ""),
}
USED_ENDS = {
    "said by a pragma": ('.pragma "used_bytes_mask 65535";', "mov.b32 %r5, %r4;"),
    "in another instruction": ("", "mov.b32 %r5, %r4;"),
}


def load_of_three(pragma, after):
    use = f"{pragma} ld.global.v4.b32 {{%r1, %r2, %r9, %r4}}, [%d0]; {after}"
    out = np.array([3, 4, 5], np.int32)
    Device().load_ptx(KERNEL.format(use=use))["k"].launch(1, 1, [out])
    return out[0]


@pytest.mark.parametrize("case", ENDS)
def test_the_end_of_a_vector_that_is_not_used_need_not_exist(case):
    """NVVM loads three elements at the end of a tensor as four, and uses three."""
    assert load_of_three(*ENDS[case]) == 5


@pytest.mark.parametrize("case", USED_ENDS)
def test_the_end_of_a_vector_that_is_used_must_exist(case):
    with pytest.raises(EmulatorError) as caught:
        load_of_three(*USED_ENDS[case])
    assert caught.value.kind == "out-of-bounds"
