"""Broken functions, one for each invariant: the verifier names what is wrong with each."""

from __future__ import annotations

import pytest
import torch
from transform.kernels import (
    alloc,
    binary,
    buffer,
    copy,
    imm,
    kernel,
    load,
    loop,
    node,
    parallel,
    product,
    region,
    seq,
    store,
    var,
)

import tilelang
import tilelang.language as T
from tilelang import errors
from tilelang.transform import run_pass, verify

STAGES = ["tile", "laid out", "thread", "planned"]


def fails(text, func, stage):
    with pytest.raises(errors.InternalError, match=f'stage "{stage}": .*{text}'):
        verify(func, stage)


def shared(name, size, **attrs):
    return buffer(name, [size], "float32", "shared.dyn", **attrs)


def planned(offsets, total, *stmts):
    return kernel(
        *alloc(*offsets), *stmts, attrs={"smem_offsets": offsets, "dyn_smem_bytes": total}
    )


@pytest.mark.parametrize("stage", STAGES)
def test_names(stage):
    i, s = var("i"), shared("S", 8)
    fails("variable i has no value here", kernel(*alloc(s), store(s, [i])), stage)
    fails(r"S \(float32\[8\] in shared memory\) is neither", kernel(store(s, [0])), stage)
    twice = kernel(*alloc(s), loop(i, 2, loop(i, 2, store(s, [i]))))
    fails("variable i is defined twice", twice, stage)
    fails("S .* is defined twice", kernel(*alloc(s, s), store(s, [0])), stage)


@pytest.mark.parametrize("stage", STAGES)
def test_loop_variable_outside_its_loop(stage):
    i, s = var("i"), shared("S", 8)
    func = kernel(*alloc(s), loop(i, 2, store(s, [i])), store(s, [i]))
    fails("the loop or block that defines it has ended", func, stage)


@pytest.mark.parametrize("stage", STAGES)
def test_ranks_and_bounds(stage):
    s = shared("S", 8)
    fails("2 indices for S", kernel(*alloc(s), store(s, [0, 0])), stage)
    fails("index 8 in dimension 0", kernel(*alloc(s), store(s, [8])), stage)


@pytest.mark.parametrize("stage", ["tile", "laid out"])
@pytest.mark.parametrize("begin", [-32, 64, 96])
def test_regions_of_tensors_may_lie_outside(begin, stage):
    """Tile operators clip them; elements and regions of other memory are inside."""
    a, s = buffer("A", [64]), shared("S", 64)
    part, outside = region(s, [32]), [imm(begin)]
    for sides in [(region(a, [32], outside), part), (part, region(a, [32], outside))]:
        verify(kernel(*alloc(s), copy(*sides), params=[a]), stage)
    shared_part = copy(region(a, [32]), region(s, [32], outside))
    fails(f"index {begin} in dim.* of S", kernel(*alloc(s), shared_part, params=[a]), stage)
    ends = copy(region(a, [32]), region(s, [32], [imm(48)]))
    fails("S.48:80. ends at 80 in dim", kernel(*alloc(s), ends, params=[a]), stage)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("index", [-1, 64])
def test_elements_are_inside(index, stage):
    """But those of tensors in T.Parallel, as long as they have no guards."""
    a, s = buffer("A", [64]), shared("S", 64)
    for element in [store(a, [index]), store(s, [0], load(a, [index]))]:
        fails(f"index {index} in .* of A", kernel(*alloc(s), element, params=[a]), stage)
        in_parallel = kernel(*alloc(s), parallel([var("i")], [4], element), params=[a])
        if stage == "tile":
            verify(in_parallel, stage)
        else:
            fails(f"index {index} in .* of A", in_parallel, stage)
    of_shared = parallel([var("i")], [4], store(s, [index]))
    fails(f"index {index} in .* of S", kernel(*alloc(s), of_shared), stage)


@pytest.mark.parametrize("stage", STAGES)
def test_types(stage):
    x, wide = var("x"), var("wide", "int64")
    fails(
        "variable wide has type int32 instead of int64", kernel(node("Bind", wide, imm(3))), stage
    )
    fails(
        "loop variable wide has type int32", kernel(loop(wide, 4, node("Bind", x, imm(1)))), stage
    )
    fails("condition of a loop has type int32", kernel(node("While", imm(1), seq())), stage)


def test_fragments_have_layouts():
    i, f = var("i"), buffer("F", [8], "float32", "local.fragment")
    func = kernel(*alloc(f), parallel([i], [8], store(f, [i])))
    fails("fragment F .* has no layout", func, "laid out")
    verify(func, "tile")


def test_no_tile_operators_in_thread_programs():
    s, r = shared("S", 8), shared("R", 8)
    func = kernel(*alloc(s, r), copy(region(s), region(r)))
    fails("a tile operator is left: copy", func, "thread")
    f = buffer("F", [8], "float32", "local.fragment")
    fails("a fragment is left: F", kernel(*alloc(f), store(f, [0])), "thread")
    m = buffer("M", [8, 4], "float32", "local")
    fails("M .* has more than one dimension", kernel(*alloc(m), store(m, [0, 0])), "thread")


def test_shared_buffers_have_places():
    s, r = shared("S", 8), shared("R", 8)
    use = [store(s, [0]), store(r, [0])]
    verify(planned({s: 0, r: 32}, 64, *use), "planned")
    fails("R .* has no offset", planned({s: 0}, 64, *alloc(r), *use), "planned")
    fails("R .* at 32 does not end within 48", planned({s: 0, r: 32}, 48, *use), "planned")
    fails("R .* at 24 is not aligned to 16", planned({s: 32, r: 24}, 64, *use), "planned")
    aligned = shared("Q", 8, align=1024)
    fails("Q .* not aligned to 1024", planned({aligned: 512}, 2048, store(aligned, [0])), "planned")


def test_live_buffers_do_not_overlap():
    s, r, i = shared("S", 8), shared("R", 8), var("i")
    one_after_the_other = [store(s, [0]), store(s, [1]), store(r, [0])]
    verify(planned({s: 0, r: 0}, 32, *one_after_the_other), "planned")
    mixed = [store(s, [0]), store(r, [0]), store(s, [1])]
    fails("R .* at 16 overlaps S .* at 0", planned({s: 0, r: 16}, 64, *mixed), "planned")
    # Around a loop the first lives on beside the second.
    in_loop = loop(i, 4, *one_after_the_other)
    fails("overlaps", planned({s: 0, r: 0}, 32, in_loop), "planned")
    inside = kernel(
        loop(i, 4, *alloc(s, r), *one_after_the_other),
        attrs={"smem_offsets": {s: 0, r: 0}, "dyn_smem_bytes": 32},
    )
    verify(inside, "planned")


def _kernels():
    @T.prim_func
    def rows(A: T.Tensor((T.dynamic("m"), 256), "float16"), B: T.Tensor((256,), "float32")):
        with T.Kernel(T.ceildiv(A.shape[0], 4), threads=128) as bx:
            x = T.alloc_fragment((4, 256), "float32")
            s = T.alloc_fragment((4,), "float32")
            T.copy(A[bx * 4, 0], x)
            T.reduce_sum(x, s, dim=1)
            for i, j in T.Parallel(4, 256):
                x[i, j] = x[i, j] / s[i] + B[j]
            T.copy(x, A[bx * 4, 0])

    @T.prim_func
    def tiles(A: T.Tensor((100, 96), "float32"), B: T.Tensor((96, 100), "float32")):
        with T.Kernel(3, 4, threads=64) as (bx, by):
            tile = T.alloc_shared((32, 32), "float32")
            T.copy(A[by * 32, bx * 32], tile)
            for i, j in T.Parallel(32, 32):
                B[bx * 32 + i, by * 32 + j] = tile[j, i]

    return [rows, tiles]


@pytest.mark.parametrize("index", [0, 1])
def test_real_kernels_are_correct_after_every_pass(index):
    func = _kernels()[index]
    steps = [
        ("check_program", "tile"),
        ("simplify", "tile"),
        ("select_instructions", "tile"),
        ("guard_accesses", "tile"),
        ("infer_layouts", "laid out"),
        ("lower_tile_ops", "thread"),
        ("simplify", "thread"),
    ]
    for name, stage in steps:
        func = run_pass(name, func)
        verify(func, stage)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("index", [0, 1])
def test_whole_pipeline_under_verification(index, target, monkeypatch):
    monkeypatch.setenv("TILELANG_VERIFY", "1")
    assert tilelang.compile(_kernels()[index], target=target).get_kernel_source()


@T.prim_func
def slices_beside_the_tensor(
    A: T.Tensor((50, 48), "float16"),
    B: T.Tensor((50, 48), "float16"),
    Whole: T.Tensor((64, 128), "float16"),
):
    """Of four slices the first and the last lie outside of A and B."""
    with T.Kernel(1, threads=128):
        x = T.alloc_fragment((64, 128), "float16")
        for s in T.unroll(4):
            T.copy(A[0:64, s * 32 - 32 : s * 32], x[:, s * 32 : s * 32 + 32])
        for s in T.unroll(4):
            T.copy(x[:, s * 32 : s * 32 + 32], B[0:64, s * 32 - 32 : s * 32])
        T.copy(x, Whole)


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
def test_slices_beside_the_tensor(target, monkeypatch):
    monkeypatch.setenv("TILELANG_VERIFY", "1")
    a = torch.randn(50, 48).half()
    b, whole = torch.full_like(a, torch.nan), torch.full((64, 128), torch.nan).half()
    tilelang.compile(slices_beside_the_tensor, target=target)(a, b, whole)
    torch.testing.assert_close(b, a, rtol=0, atol=0)
    padded = torch.nn.functional.pad(a, (32, 48, 0, 14))
    torch.testing.assert_close(whole, padded, rtol=0, atol=0)


def _gives_out_tiles():
    @T.prim_func
    def main(A: T.Tensor((32, 64), "float32")):
        with T.Kernel(4, threads=32) as block:
            for i in T.Persistent((32,), 4, block, scheduler="counter"):
                for j in T.Parallel(64):
                    A[i, j] = i

    return main


def _gemm(steps, stages, dead):
    @T.prim_func
    def main(
        A: T.Tensor((128, steps * 64), "bfloat16"),
        B: T.Tensor((128, steps * 64), "bfloat16"),
        C: T.Tensor((128, 128), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((128, 64), "bfloat16")
            c = T.alloc_fragment((128, 128), "float32")
            for k in T.Pipelined(steps, num_stages=stages):
                T.copy(A[0, k * 64], a)
                T.copy(B[0, k * 64], b)
                T.gemm(a, b, c, transpose_B=True, clear_accum=(k == 0))
            if not dead:
                T.copy(c, C)

    return main


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize(
    "func",
    [_gives_out_tiles(), _gemm(1, 0, dead=True), _gemm(2, 2, dead=True), _gemm(2, 2, dead=False)],
    ids=["tiles given out", "dead gemm", "dead pipelined gemm", "pipelined gemm"],
)
def test_variables_of_roles_and_engines(func, target, monkeypatch):
    monkeypatch.setenv("TILELANG_VERIFY", "1")
    assert tilelang.compile(func, target=target).get_kernel_source()


@pytest.mark.parametrize("by_mma_warp", [False, True])
def test_tensor_memory_of_other_roles(by_mma_warp):
    """The gemms of an MMA warp alone may use what another role allocates."""
    a = buffer("A", [128, 64], "bfloat16", "shared.dyn")
    b = buffer("B", [64, 128], "bfloat16", "shared.dyn")
    c = buffer("C", [128, 128], "float32", "shared.tmem")
    notes = {"by_mma_warp": True} if by_mma_warp else {}
    gemm = product(a, b, c, clear=1, **notes)
    fails(r"C .* is neither", kernel(*alloc(a, b), gemm), "tile")
    elsewhere = kernel(*alloc(a, b), seq(*alloc(c)), gemm)
    if by_mma_warp:
        verify(elsewhere, "tile")
    else:
        fails(r"C .* is used after the block that allocates it", elsewhere, "tile")


def test_unknown_stage():
    with pytest.raises(errors.InternalError, match='no stage "threads"'):
        verify(kernel(node("Bind", var("x"), binary("+", imm(1), imm(2)))), "threads")
