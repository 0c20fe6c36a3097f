"""Kernels with clusters: tiles for several blocks, shared memory and barriers of other blocks."""

from __future__ import annotations

import pytest
import torch
from cluster import kernels
from cluster.kernels import exact, poisoned

import tilelang
import tilelang.language as T

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.requires_cuda)]
TARGETS = ["sm_90a", "sm_100a"]
every_schedule = pytest.mark.every_schedule


@every_schedule
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("size", "mask"), [(2, 3), (2, 1), (2, 2), (4, 15), (4, 0b1010), (4, 0b0110), (8, 0b10110001)]
)
def test_tile_for_several_blocks(size, mask, device):
    steps = 3
    kernel = tilelang.compile(kernels.broadcast_kernel(size, mask, steps), target="sm_90a")
    a = torch.randn(2 * size, steps * 64, 64).half()
    out = poisoned(2 * size, steps, 64, 64).half().to(device)
    kernel(a.to(device), out, steps)
    assert torch.equal(out.cpu(), kernels.broadcast_result(a, size, mask, steps))
    assert ".multicast::cluster" in kernel.get_ptx()


def check_gemm(kernel, M: int, N: int, K: int, *arguments: int, device: str = "cpu") -> None:
    """The kernel of A, B, C and these arguments makes C equal to A @ B^T."""
    a, b = exact(M, K), exact(N, K)
    c = poisoned(M, N, device=device)
    kernel(a.to(device), b.to(device), c, *arguments)
    assert torch.equal(c.cpu().double(), a.double() @ b.double().T)


@every_schedule
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("stages", [0, 2, 3])
@pytest.mark.parametrize(("size", "mask"), [(2, 3), (4, 15), (4, 0b0110), (4, 0b1001)])
def test_gemm(size, mask, stages, device):
    """In a pipeline the tiles come through one ring, whose slots all blocks of the mask release."""
    M, N, K = 72, 200, 416
    program = kernels.gemm(M, N, K, size=size, mask=mask, stages=stages)
    kernel = tilelang.compile(program, target="sm_90a")
    assert ("a_full" in kernel.get_kernel_source()) == (stages > 0)
    check_gemm(kernel, M, N, K, device=device)


@every_schedule
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize(("size", "mask"), [(2, 3), (4, 15), (4, 0b0110), (4, 0b1001)])
def test_slots_that_tensor_cores_give_back(size, mask, stages):
    """The commit of one block arrives in all that got the tile."""
    M, N, K = 130, 200, 416
    program = kernels.gemm(M, N, K, tile=(128, 64, 64), size=size, mask=mask, stages=stages)
    as_written = {"tl.disable_stage_fitting": True}
    kernel = tilelang.compile(program, target="sm_100a", pass_configs=as_written)
    assert "tcgen05.commit" in kernel.get_ptx()
    assert ("multicast::cluster.b64" in kernel.get_ptx()) == (stages > 1)
    check_gemm(kernel, M, N, K)


@every_schedule
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("K", [40, 64, 128, 416])
@pytest.mark.parametrize(("size", "clusters"), [(2, 1), (2, 3), (4, 2)])
def test_persistent_gemm(size, clusters, K, target):
    """Clusters with one tile more than others, loops shorter than the pipeline."""
    M, N = 128 * size + 70, 136
    program = kernels.persistent_gemm(M, N, K, size=size, clusters=clusters)
    kernel = tilelang.compile(program, target=target)
    check_gemm(kernel, M, N, K)


@every_schedule
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("size", "stages"), [(2, 2), (2, 3), (4, 3)])
def test_pipeline_by_hand(size, stages, device):
    M, N, K = 128, 64 * size, 448
    kernel = tilelang.compile(kernels.ring_gemm(M, N, K, size=size, stages=stages), target="sm_90a")
    check_gemm(kernel, M, N, K, K // 64, device=device)


@every_schedule
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("from_fragment", [False, True])
@pytest.mark.parametrize(
    ("size", "shift", "dtype"),
    [(2, 1, "float32"), (4, 3, "float16"), (8, 5, "int8"), (4, 1, "float64"), (2, 1, "bfloat16")],
)
def test_stores_to_another_block(size, shift, dtype, from_fragment, device):
    n, rounds = 96, 2
    program = kernels.exchange(size, shift, n, dtype, from_fragment, rounds)
    kernel = tilelang.compile(program, target="sm_90a")
    x = torch.randint(-50, 50, (2 * size, n)).to(getattr(torch, dtype))
    y = torch.full_like(x, 77).to(device)
    kernel(x.to(device), y)
    want = x.reshape(2, size, n).roll(shift * rounds, dims=1).reshape(2 * size, n)
    assert torch.equal(y.cpu(), want)


@every_schedule
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("size", "shift", "shape", "dtype"),
    [(2, 1, (64, 64), "float16"), (4, 3, (16, 24), "float32"), (3, 2, (5, 16), "uint8")],
)
def test_asynchronous_copy_to_another_block(size, shift, shape, dtype, device):
    kernel = tilelang.compile(kernels.bulk_exchange(size, shift, shape, dtype), target="sm_90a")
    assert "cp.async.bulk.shared::cluster.shared::cta" in kernel.get_ptx()
    x = torch.randint(0, 100, (2 * size, *shape)).to(getattr(torch, dtype))
    y = torch.full_like(x, 77).to(device)
    kernel(x.to(device), y)
    want = x.reshape(2, size, *shape).roll(shift, dims=1).reshape(x.shape)
    assert torch.equal(y.cpu(), want)


@every_schedule
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize(
    ("depth", "rows", "columns", "first", "target_rows"),
    [(1, 4, 32, 0, 4), (2, 3, 16, 8, 5), (2, 4, 64, 0, 4), (1, 1, 4, 60, 1)],
)
def test_asynchronous_copies_of_rows(depth, rows, columns, first, target_rows, target):
    program = kernels.bulk_rows(2, depth, rows, columns, first, target_rows)
    kernel = tilelang.compile(program, target=target)
    x, y = torch.randn(2, depth, 16, 64), torch.zeros(2, depth, target_rows, columns)
    for k in (0, 5):
        kernel(x, y, k)
        want = torch.full_like(y, -1)
        want[:, :, :rows] = x[:, :, k : k + rows, first : first + columns].flip(0)
        assert torch.equal(y, want)


@every_schedule
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("size", "columns", "first", "types", "annotate"),
    [
        (2, 31, 0, ("float16", "float16"), None),
        (3, 32, 3, ("float32", "float32"), None),
        (2, 64, 0, ("int32", "float32"), None),
        (2, 5, 58, ("int8", "int8"), None),
        (4, 64, 0, ("bfloat16", "bfloat16"), tilelang.layout.make_swizzled_layout),
    ],
)
def test_copies_to_another_block_by_threads(size, columns, first, types, annotate, target):
    """Rows of other sizes than whole 16 bytes, between them, of other types and layouts."""
    program = kernels.stored_tiles(size, columns, first, types, annotate)
    kernel = tilelang.compile(program, target=target)
    assert any("is stored by threads, one of which arrives" in r.message for r in kernel.remarks)
    x = torch.randint(-50, 50, (size, 32, 64)).to(getattr(torch, types[0]))
    y = torch.zeros(size, 32, 64, dtype=getattr(torch, types[1]))
    kernel(x, y)
    want = torch.full_like(y, -1)
    want[:, :, :columns] = x[:, :, first : first + columns].roll(1, dims=0).to(y.dtype)
    assert torch.equal(y, want)


@every_schedule
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("size", [2, 3, 8])
def test_barriers_of_other_blocks(size, device):
    rounds = 5
    kernel = tilelang.compile(kernels.mailboxes(size, rounds), target="sm_90a")
    x = torch.randn(size, 128)
    y = poisoned(size, 128, device=device)
    kernel(x.to(device), y)
    assert torch.equal(y.cpu(), x.roll(rounds, dims=0))


def test_arrivals_that_publish_nothing_need_no_fence_of_the_gpu():
    published = "mbarrier.arrive.release.cluster.shared::cluster"
    ring = tilelang.compile(kernels.ring_gemm(64, 128, 256), target="sm_90a").get_ptx()
    assert published not in ring and "mbarrier.arrive.shared::cluster" in ring
    assert published in tilelang.compile(kernels.mailboxes(2, 3), target="sm_90a").get_ptx()


@pytest.mark.parametrize("rounds", [1, 4])
def test_tensors_that_blocks_write_for_each_other(rounds):
    """Each block writes a row and tells the next one, which reads it."""
    program = kernels.relay(2, rounds)
    kernel = tilelang.compile(program, target="sm_90a")
    assert "mbarrier.arrive.release.cluster.shared::cluster" in kernel.get_ptx()
    x = torch.zeros(2, 128)
    kernel(x)
    assert torch.equal(x, torch.tensor([[2.0 * rounds - 1], [2.0 * rounds]]).expand(2, 128))


@every_schedule
@pytest.mark.parametrize("target", TARGETS)
def test_split_reduction(target):
    size, n = 4, 100
    kernel = tilelang.compile(kernels.split_reduction(size, n), target=target)
    x = torch.randint(-9, 9, (4, size, n)).float()
    y = poisoned(4, n)
    kernel(x, y)
    assert torch.equal(y, x.sum(1))


def test_stores_to_another_block_are_not_in_turns():
    """Each store is of one element: threads need no barrier between two of them."""

    @T.prim_func
    def exchanged(X: T.Tensor((2, 64, 32)), Y: T.Tensor((2, 64, 32))):
        with T.Kernel(2, threads=128, cluster_dims=2) as rank:
            mine = T.alloc_fragment((64, 32), "float32")
            theirs = T.alloc_shared((64, 40), "float32")
            T.copy(X[rank, :, :], mine)
            T.copy_cluster(mine, theirs[:, 0:32], dst_block=rank ^ 1)
            T.cluster_sync()
            T.copy(theirs[:, 0:32], Y[rank, :, :])

    kernel = tilelang.compile(exchanged, target="sm_90a")
    assert "syncthreads" not in kernel.get_kernel_source()
    x, y = torch.randn(2, 64, 32), torch.zeros(2, 64, 32)
    kernel(x, y)
    assert torch.equal(x.flip(0), y)
