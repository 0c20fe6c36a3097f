"""Kernels in Helion, with a configuration or the default one."""

import helion
import helion.language as hl
import torch


@helion.kernel(config=helion.Config(block_sizes=[32, 64], num_warps=2))
def scaled_add(x: torch.Tensor, y: torch.Tensor, factor: float) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(out.size()):
        out[tile] = x[tile] + factor * y[tile]
    return out


@helion.kernel(config=helion.Config(block_sizes=[64, 64, 32], num_stages=3))
def matmul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    m, k = x.size()
    k, n = y.size()
    out = torch.empty([m, n], dtype=torch.float32, device=x.device)
    for rows, columns in hl.tile([m, n]):
        sums = hl.zeros([rows, columns], dtype=torch.float32)
        for depth in hl.tile(k):
            sums = torch.addmm(sums, x[rows, depth], y[depth, columns])
        out[rows, columns] = sums
    return out


@helion.kernel(autotune_effort="none")
def softmax(x: torch.Tensor) -> torch.Tensor:
    rows, _ = x.size()
    out = torch.empty_like(x)
    for tile in hl.tile(rows):
        out[tile, :] = torch.nn.functional.softmax(x[tile, :], dim=1)
    return out


@helion.kernel(config=helion.Config(block_sizes=[16, 64]))
def row_sums(x: torch.Tensor) -> torch.Tensor:
    rows, columns = x.size()
    out = torch.zeros([rows], dtype=torch.float32, device=x.device)
    for tile, part in hl.tile([rows, columns]):
        hl.atomic_add(out, [tile], x[tile, part].sum(-1))
    return out


@helion.kernel(config=helion.Config(block_sizes=[16, 64]))
def racing_row_sums(x: torch.Tensor) -> torch.Tensor:
    """Wrong: blocks that have the same rows update a sum that is no atomic."""
    rows, columns = x.size()
    out = torch.zeros([rows], dtype=torch.float32, device=x.device)
    for tile, part in hl.tile([rows, columns]):
        out[tile] = out[tile] + x[tile, part].sum(-1)
    return out
