"""A GEMM in Triton, for benchmark/gemm.py: C = A B^T with tensor descriptors, autotuned."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


def _configurations() -> list[triton.Config]:
    return [
        triton.Config({"M_TILE": m, "N_TILE": n, "K_TILE": 64}, num_stages=stages, num_warps=warps)
        for m, n, warps in [(64, 64, 4), (64, 128, 4), (128, 128, 4), (128, 128, 8), (128, 256, 8)]
        for stages in (3, 4)
    ]


def _that_divide(configurations, arguments, **_kwargs) -> list[triton.Config]:
    sizes = arguments["M"], arguments["N"]
    tiles = [(c, (c.kwargs["M_TILE"], c.kwargs["N_TILE"])) for c in configurations]
    return [c for c, tile in tiles if sizes[0] % tile[0] == 0 and sizes[1] % tile[1] == 0]


@triton.autotune(
    configs=_configurations(),
    key=["M", "N", "K"],
    prune_configs_by={"early_config_prune": _that_divide},
)
@triton.jit
def _gemm(
    a_ptr, b_ptr, c_ptr, M, N, K,
    M_TILE: tl.constexpr, N_TILE: tl.constexpr, K_TILE: tl.constexpr,
):  # fmt: skip
    column, row = tl.program_id(0), tl.program_id(1)
    rows = row * M_TILE + tl.arange(0, M_TILE)
    columns = column * N_TILE + tl.arange(0, N_TILE)
    ks = tl.arange(0, K_TILE)
    a_at = a_ptr + rows[:, None] * K + ks[None, :]
    b_at = b_ptr + columns[None, :] * K + ks[:, None]
    total = tl.zeros((M_TILE, N_TILE), dtype=tl.float32)
    for _ in range(tl.cdiv(K, K_TILE)):
        total = tl.dot(tl.load(a_at), tl.load(b_at), total)
        a_at += K_TILE
        b_at += K_TILE
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total.to(tl.bfloat16))


def matmul(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    """Writes a (M, K) times b (N, K) transposed to c (M, N), bfloat16; tiles divide all of them."""
    (M, K), N = a.shape, b.shape[0]
    grid = lambda meta: (N // meta["N_TILE"], M // meta["M_TILE"])  # noqa: E731
    _gemm[grid](a, b, c, M, N, K)
