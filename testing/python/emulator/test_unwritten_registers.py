"""Registers that nothing has written hold NaN, or -1, and using one is a finding."""

import numpy as np
import pytest
import torch
from ptx_kernels import HEADER

import tilelang
import tilelang.language as T
from tilelang.emulator import Device, EmulatorError, Profile, options

KERNEL = (
    HEADER
    + """
.visible .entry k(.param .u64 out) {{
  .reg .b32 %r<20>; .reg .f32 %f<20>; .reg .b16 %h<4>; .reg .b64 %d<9>; .reg .pred %p<4>;
  .shared .align 16 .b32 s[4];
  ld.param.u64 %d0, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 4; add.u64 %d0, %d0, %d1;
  setp.lt.u32 %p0, %r0, 16;
  {body}
  ret;
}}
"""
)
STORE = "st.global.b32 [%d0], %r9;"
FINE = {
    "written before": "mov.b32 %r9, 7;" + STORE,
    "written in both branches": (
        "@%p0 bra L; mov.b32 %r9, 7; bra M; L: mov.b32 %r9, 7; M:" + STORE
    ),
    "written under both guards": "@%p0 mov.b32 %r9, 7; @!%p0 mov.b32 %r9, 7;" + STORE,
    "written and stored under one guard": (
        "@%p0 mov.b32 %r9, 7; @%p0 st.global.b32 [%d0], %r9; @!%p0 st.global.b32 [%d0], 7;"
    ),
    "moved and dropped": "mov.b32 %r5, %r6; add.s32 %r5, %r5, 1; mov.b32 %r9, 7;" + STORE,
    "not selected": "setp.lt.u32 %p1, %r0, 99; selp.b32 %r9, 7, %r5, %p1;" + STORE,
    "overwritten in a loop": (
        "mov.b32 %r3, 0; L: mov.b32 %r9, 7; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 3;"
        "@%p1 bra L;" + STORE
    ),
    "given to a lane that does not want it": (
        "@%p0 mov.b32 %r5, 7; shfl.sync.down.b32 %r6, %r5, 16, 31, -1; mov.b32 %r9, 7;" + STORE
    ),
    "stored in shared memory": "st.shared.b32 [s], %r5; mov.b32 %r9, 7;" + STORE,
    "stored there by a generic address": (
        "cvta.shared.u64 %d2, s; st.b32 [%d2], %r5; mov.b32 %r9, 7;" + STORE
    ),
    "compared": "setp.eq.u32 %p1, %r5, 5; @%p1 bra L; L: mov.b32 %r9, 7;" + STORE,
    "merged": "shl.b32 %r5, %r6, 16; and.b32 %r5, %r5, %r0; mov.b32 %r4, 7; "
    "and.b32 %r5, %r5, 0; or.b32 %r9, %r5, %r4;" + STORE,
    "packed and taken out": (
        "mov.b16 %h0, 7; mov.b32 %r5, {%h0, %h1}; and.b32 %r9, %r5, 0xffff;" + STORE
    ),
    "of a row or a column that is dropped": (
        "mov.b32 %r1, 0; mov.f32 %f0, 0f00000000;"
        "@%p0 mov.b32 %r2, 0; @%p0 mov.b32 %r3, 0; mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"
        " {%f1, %f2, %f3, %f4}, {%r1, %r2}, {%r3}, {%f0, %f0, %f0, %f0};"
        "add.f32 %f1, %f1, 0f40E00000; cvt.rzi.s32.f32 %r9, %f1;"
        "and.b32 %r4, %r0, 2; setp.eq.and.u32 %p1, %r4, 0, %p0; @!%p1 mov.b32 %r9, 7;" + STORE
    ),
}
USED = {
    "stored": (STORE, "%r9"),
    "stored by some lanes": ("@%p0 mov.b32 %r9, 7;" + STORE, "%r9"),
    "stored by a generic address": ("st.b32 [%d0], %r9;", "%r9"),
    "computed with": ("add.s32 %r5, %r6, 1; mul.lo.s32 %r9, %r5, 2;" + STORE, "%r6"),
    "added to a float": (
        "mov.f32 %f0, 0f3f800000; add.f32 %f1, %f0, %f2; st.global.f32 [%d0], %f1;",
        "%f2",
    ),
    "packed": ("mov.b32 %r9, {%h0, %h1};" + STORE, "%h[01]"),
    "added to memory": ("red.global.add.u32 [%d0], %r9;", "%r9"),
    "added up in a loop": (
        "mov.b32 %r3, 0; L: add.u32 %r9, %r9, 7; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 3;"
        "@%p1 bra L;" + STORE,
        "%r9",
    ),
    "accumulated into": (
        "mov.b32 %r1, 0; mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4},"
        " {%r1, %r1}, {%r1}, {%f1, %f2, %f3, %f4}; st.global.f32 [%d0], %f3;",
        "%f[34]",
    ),
}


def run(body, **chosen):
    out = np.full(32, 99, np.uint32)
    Device().load_ptx(KERNEL.format(body=body))["k"].launch(1, 32, [out], **chosen)
    return out


@pytest.mark.parametrize("schedule", ["late", "eager", 3])
@pytest.mark.parametrize("name", FINE)
def test_what_is_right_is_not_reported(name, schedule):
    assert (run(FINE[name], schedule=schedule) == 7).all()


@pytest.mark.parametrize("name", USED)
def test_a_use_is_reported(name):
    body, register = USED[name]
    with pytest.raises(EmulatorError, match=f"value of register '{register}'") as caught:
        run(body)
    assert caught.value.kind == "uninitialised-register"
    run(body, sanitize=False)
    assert run(body, sanitize="report") is not None
    mine = Profile("mine", "my compiler", ())
    with pytest.raises(EmulatorError):
        run(body, profile=mine)
    run(body, suppress=[("uninitialised-register", "k")])


@pytest.mark.parametrize(
    ("kind", "value"), [("f32", np.float32), ("f16", np.float16), ("b32", np.int32)]
)
def test_the_value_is_nan_or_minus_one(kind, value):
    if kind == "f16":
        found = run("mov.b32 %r9, {%h0, %h1};" + STORE, sanitize=False).view(value)
    else:
        register = "%f5" if kind == "f32" else "%r9"
        found = run(f"st.global.{kind} [%d0], {register};", sanitize=False).view(value)
    assert (found == -1).all() if kind == "b32" else np.isnan(found).all()


def sum_of_products(A, B, forget: bool, threads: int):
    A: T.Tensor[[128, 128], T.bfloat16]
    B: T.Tensor[[128, 128], T.bfloat16]
    C = T.empty((128, 128), T.float32)
    with T.Kernel(1, threads=threads):
        a = T.alloc_shared((128, 64), T.bfloat16)
        b = T.alloc_shared((64, 128), T.bfloat16)
        c = T.alloc_fragment((128, 128), T.float32)
        if not forget:
            T.clear(c)
        for k in T.Pipelined(2, num_stages=2):
            T.copy(A[0, k * 64], a)
            T.copy(B[k * 64, 0], b)
            T.gemm(a, b, c)
        T.copy(c, C)
    return C


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
def test_a_forgotten_clear_is_reported(target):
    """In registers, by wgmma, and where the accumulator goes to tensor memory."""
    a, b = (torch.randn(128, 128).bfloat16() for _ in range(2))
    program = tilelang.jit(sum_of_products, target=target)
    torch.testing.assert_close(
        program(a, b, False, 128), a.float() @ b.float(), atol=1e-3, rtol=1e-3
    )
    with pytest.raises(EmulatorError) as caught:
        program(a, b, True, 128)
    where = "tmem" if target == "sm_100a" else "register"
    assert caught.value.kind == f"uninitialised-{where}" and caught.value.span.line > 0
    with options(sanitize=False):
        assert program(a, b, True, 128).isnan().all()


def sum_through_shared_memory(A, B, forget: bool, dtype: str):
    A: T.Tensor[[128, 128], T.bfloat16]
    B: T.Tensor[[128, 128], T.bfloat16]
    C = T.empty((100, 128), dtype)
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((128, 64), T.bfloat16)
        b = T.alloc_shared((64, 128), T.bfloat16)
        acc = T.alloc_fragment((128, 128), T.float32)
        out = T.alloc_shared((128, 128), dtype)
        if not forget:
            T.clear(acc)
        for k in T.Pipelined(2, num_stages=2):
            T.copy(A[0, k * 64], a)
            T.copy(B[k * 64, 0], b)
            T.gemm(a, b, acc)
        T.copy(acc, out)
        T.copy(out, C[0, 0])
    return C


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_results_that_leave_through_shared_memory(target, dtype):
    """By loads and stores of threads, and by stmatrix and a bulk store."""
    a, b = (torch.randn(128, 128).bfloat16() for _ in range(2))
    program = tilelang.jit(sum_through_shared_memory, target=target)
    right = (a.float() @ b.float())[:100].to(getattr(torch, dtype))
    torch.testing.assert_close(program(a, b, False, dtype), right, atol=2e-1, rtol=2e-2)
    with pytest.raises(EmulatorError) as caught:
        program(a, b, True, dtype)
    assert caught.value.kind == "uninitialised-register"
    assert "the value of acc (allocated in line" in caught.value.reason


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_the_fragment_is_named(target):
    a, b = (torch.randn(128, 128).bfloat16() for _ in range(2))
    with pytest.raises(EmulatorError) as caught:
        tilelang.jit(sum_of_products, target=target)(a, b, True, 128)
    line = sum_of_products.__code__.co_firstlineno + 7
    text = f"the value of c (allocated in line {line}), which nothing has written (register '%"
    assert text in caught.value.reason and text in str(caught.value)
