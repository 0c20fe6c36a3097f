"""Sums of floats that CTAs add to global memory do not depend on the number of host threads."""

import numpy as np
import pytest
from ptx_kernels import HEADER

from tilelang.emulator import Device

CTAS, COLUMNS = 400, 32
# CTA n adds sqrt(n) / 10 to each column, after a while that depends on n.
_TEXT = """
.visible .entry k({parameter}) {{
  .reg .pred %q, %z; .reg .b32 %r<9>; .reg .f32 %f; .reg .f64 %e; .reg .b64 %d<5>;
  .shared .align 128 .b8 tile[256];
  {address}
  mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, tile;
  mad.lo.u32 %r3, %r0, {size}, %r2; mad.wide.u32 %d1, %r0, {size}, %d0;
  cvt.rn.f32.u32 %f, %r1; sqrt.rn.f32 %f, %f; mul.f32 %f, %f, 0f3DCCCCCD; cvt.f64.f32 %e, %f;
  mul.lo.u32 %r4, %r1, 7; and.b32 %r4, %r4, 255; mov.u32 %r5, 0;
WORK: add.u32 %r4, %r4, 1; setp.lt.u32 %z, %r4, 256; @%z bra WORK;
  {reduce}
  ret;
}}
"""
_STORE = """
  st.shared.{type} [%r3], {value}; fence.proxy.async.shared::cta; bar.sync 0;
  setp.eq.u32 %q, %r0, 0;
  @%q {instruction};
  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
"""
BULK = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.{type} [%d0], [%r2], {bytes}"
TENSOR = "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group [%d0, {{%r5}}], [%r2]"
MAP = "mov.b64 %d0, map; cvta.param.u64 %d0, %d0;"
POINTER = "ld.param.u64 %d0, [out];"


def text(how, type_):
    size, value = (4, "%f") if type_ == "f32" else (8, "%e")
    if how == "red":
        reduce = f"red.global.add.{type_} [%d1], {value};"
    else:
        line = (BULK if how == "bulk" else TENSOR).format(type=type_, bytes=size * COLUMNS)
        reduce = _STORE.format(type=type_, value=value, instruction=line)
    tensor = how == "tensor"
    return HEADER + _TEXT.format(
        parameter=".param .align 64 .b8 map[128]" if tensor else ".param .u64 out",
        address=MAP if tensor else POINTER, size=size, reduce=reduce,
    )  # fmt: skip


@pytest.mark.parametrize("type_", ["f32", "f64"])
@pytest.mark.parametrize("how", ["red", "bulk", "tensor"])
def test_sums_are_the_same_for_any_number_of_threads(how, type_):
    device = Device()
    kernel = device.load_ptx(text(how, type_))["k"]
    dtype = np.float32 if type_ == "f32" else np.float64
    terms = (np.sqrt(np.arange(CTAS, dtype=np.float32)) * np.float32(0.1)).astype(dtype)
    results = []
    for threads in (0, 1, 2, 7):
        out = np.zeros(COLUMNS, dtype)
        argument = device.tensor_map(out, box=(COLUMNS,)) if how == "tensor" else out
        kernel.launch(CTAS, COLUMNS, [argument], threads=threads, sanitize=False)
        results.append(out)
    np.testing.assert_allclose(results[0], terms.sum(dtype=np.float64), rtol=1e-5)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)
