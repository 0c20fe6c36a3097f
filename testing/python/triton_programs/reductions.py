"""Programs that reduce, scan, sort, and count."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.runtime import driver
from triton_programs.programs import Program, check, collect, generator, poisoned, randn

PROGRAMS: list[Program] = []
program = collect(PROGRAMS)


@triton.jit
def softmax_kernel(out_ptr, x_ptr, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=-float("inf"))
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * columns + at, e / tl.sum(e, axis=0), mask=at < columns)


@program
def persistent_softmax(arch):
    """The number of programs comes from what the compiled kernel and the device have."""
    rows, columns, warps = 40, 190, 4
    x, out = randn(rows, columns), poisoned(rows, columns)
    properties = driver.active.utils.get_device_properties(driver.active.get_current_device())
    kernel = softmax_kernel.warmup(
        out, x, rows, columns, BLOCK=256, STAGES=2, num_warps=warps, grid=(1,)
    )
    kernel._init_handles()
    occupancy = properties["max_num_regs"] // (
        kernel.n_regs * properties["warpSize"] * kernel.metadata.num_warps
    )
    assert occupancy > 1 and properties["multiprocessor_count"] > 100
    programs = min(rows, 7)
    softmax_kernel[(programs,)](out, x, rows, columns, BLOCK=256, STAGES=2, num_warps=warps)
    check(out, torch.softmax(x.double(), -1))


@triton.jit
def norm_kernel(x_ptr, out_ptr, w_ptr, b_ptr, mean_ptr, rstd_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    mean = tl.sum(total) / n
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + at, mask=at < n, other=0.0).to(tl.float32)
        squares += tl.where(at < n, (x - mean) * (x - mean), 0.0)
    rstd = tl.rsqrt(tl.sum(squares) / n + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + at, mask=at < n, other=0.0).to(tl.float32)
        y = (x - mean) * rstd * tl.load(w_ptr + at, mask=at < n) + tl.load(b_ptr + at, mask=at < n)
        tl.store(out_ptr + row * n + at, y.to(out_ptr.dtype.element_ty), mask=at < n)


@triton.jit
def norm_dx_kernel(
    dx_ptr, dy_ptr, dw_ptr, db_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, lock_ptr, n,
    GROUPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sums of a group of rows are added under a lock."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + row * n + at, mask=inside, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + row * n + at, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + at, mask=inside, other=0.0).to(tl.float32)
    rstd = tl.load(rstd_ptr + row)
    xhat = tl.where(inside, (x - tl.load(mean_ptr + row)) * rstd, 0.0)
    wdy = w * dy
    c1, c2 = tl.sum(xhat * wdy, axis=0) / n, tl.sum(wdy, axis=0) / n
    tl.store(dx_ptr + row * n + at, ((wdy - (xhat * c1 + c2)) * rstd), mask=inside)
    group = row % GROUPS
    count_ptr = lock_ptr + GROUPS + group
    dw_ptr += group * n + at
    db_ptr += group * n + at
    partial_dw, partial_db = dy * xhat, dy
    while tl.atomic_cas(lock_ptr + group, 0, 1) == 1:
        pass
    is_first = tl.load(count_ptr) == 0
    tl.debug_barrier()  # Triton 3.7 has none between the loads of all warps and the exchange
    if is_first:
        tl.atomic_xchg(count_ptr, 1)
    else:
        partial_dw += tl.load(dw_ptr, mask=inside)
        partial_db += tl.load(db_ptr, mask=inside)
    tl.store(dw_ptr, partial_dw, mask=inside)
    tl.store(db_ptr, partial_db, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr + group, 0)


@triton.jit
def column_sum_kernel(x_ptr, out_ptr, rows, n, BR: tl.constexpr, BC: tl.constexpr):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    total = tl.zeros((BR, BC), tl.float32)
    for start in range(0, rows, BR):
        r = start + tl.arange(0, BR)
        inside = (r[:, None] < rows) & (c < n)
        total += tl.load(x_ptr + r[:, None] * n + c, mask=inside, other=0.0)
    tl.store(out_ptr + c, tl.sum(total, axis=0), mask=c < n)


@program
def layer_norm_and_its_backward(arch):
    rows, n, groups = 12, 150, 4
    x, dy, w, b = randn(rows, n), randn(rows, n, seed=1), randn(n, seed=2), randn(n, seed=3)
    y, mean, rstd = poisoned(rows, n), poisoned(rows), poisoned(rows)
    norm_kernel[(rows,)](x, y, w, b, mean, rstd, n, 1e-5, BLOCK=64)
    x64, w64, b64 = [each.double().requires_grad_() for each in (x, w, b)]
    expected = torch.nn.functional.layer_norm(x64, (n,), w64, b64, 1e-5)
    check(y, expected.detach(), atol=1e-5)
    dx, dw, db = poisoned(rows, n), poisoned(groups, n), poisoned(groups, n)
    locks = torch.zeros(2 * groups, dtype=torch.int32)
    norm_dx_kernel[(rows,)](
        dx, dy, dw, db, x, w, mean, rstd, locks, n, GROUPS=groups, BLOCK=256, num_warps=2
    )
    expected.backward(dy.double())
    check(dx, x64.grad, atol=1e-5)
    for parts, gradient in ((dw, w64.grad), (db, b64.grad)):
        total = poisoned(n)
        column_sum_kernel[(triton.cdiv(n, 64),)](parts, total, groups, n, BR=4, BC=64)
        check(total, gradient, atol=1e-4)


@triton.jit
def rms_kernel(x_ptr, w_ptr, n, eps, BLOCK: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < n
    x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x) / n + eps)
    w = tl.load(w_ptr + tl.arange(0, BLOCK), mask=inside).to(tl.float32)
    tl.store(x_ptr + at, (x * scale * w).to(x_ptr.dtype.element_ty), mask=inside)


@program
def rms_norm_in_place(arch):
    x, w = randn(6, 300, dtype=torch.bfloat16), randn(300, dtype=torch.bfloat16, seed=1)
    expected = torch.nn.functional.rms_norm(x.double(), (300,), w.double(), 1e-6)
    rms_kernel[(6,)](x, w, 300, 1e-6, BLOCK=512)
    check(x, expected)


@triton.jit
def cross_entropy_kernel(loss_ptr, grad_ptr, x_ptr, label_ptr, n, smooth, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    label = tl.load(label_ptr + row)
    largest, total, all_x = -float("inf"), 0.0, 0.0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + at, mask=at < n, other=-float("inf"))
        new = tl.maximum(largest, tl.max(x))
        total = total * tl.exp(largest - new) + tl.sum(tl.exp(x - new))
        all_x += tl.sum(tl.where(at < n, x, 0.0))
        largest = new
    lse = largest + tl.log(total)
    own = tl.load(x_ptr + row * n + label)
    tl.store(loss_ptr + row, lse - (1 - smooth) * own - smooth * all_x / n)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + at, mask=at < n)
        wanted = tl.where(at == label, 1 - smooth + smooth / n, smooth / n)
        tl.store(grad_ptr + row * n + at, tl.exp(x - lse) - wanted, mask=at < n)


@program
def cross_entropy(arch):
    rows, n, smooth = 5, 333, 0.1
    x, labels = randn(rows, n), torch.randint(0, n, (rows,), generator=generator())
    loss, gradient = poisoned(rows), poisoned(rows, n)
    cross_entropy_kernel[(rows,)](loss, gradient, x, labels, n, smooth, BLOCK=128)
    x64 = x.double().requires_grad_()
    expected = torch.nn.functional.cross_entropy(
        x64, labels, reduction="none", label_smoothing=smooth
    )
    expected.sum().backward()
    check(loss, expected.detach(), atol=1e-5)
    check(gradient, x64.grad, atol=1e-6)


@triton.jit
def scan_kernel(x_ptr, sum_ptr, last_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + at, mask=at < n, other=0)
    tl.store(sum_ptr + row * n + at, tl.cumsum(x), mask=at < n)
    tl.store(last_ptr + row * n + at, tl.cumsum(x, reverse=True), mask=at < n)


@program
def cumulative_sums(arch):
    x = torch.randint(-1000, 1000, (4, 400), generator=generator()).int()
    forward, backward = poisoned(4, 400, dtype=torch.int32), poisoned(4, 400, dtype=torch.int32)
    scan_kernel[(4,)](x, forward, backward, 400, BLOCK=512)
    assert torch.equal(forward.long(), x.long().cumsum(1))
    assert torch.equal(backward.long(), x.long().flip(1).cumsum(1).flip(1))


@triton.jit
def compose(a1, b1, a2, b2):
    return a1 * a2, a2 * b1 + b2


@triton.jit
def recurrence_kernel(a_ptr, b_ptr, out_ptr, S: tl.constexpr, D: tl.constexpr):
    at = tl.arange(0, S)[:, None] * D + tl.arange(0, D)
    _, h = tl.associative_scan((tl.load(a_ptr + at), tl.load(b_ptr + at)), 0, compose)
    tl.store(out_ptr + at, h)


@program
def linear_recurrence(arch):
    s, d = 64, 16
    a, b, out = torch.rand(s, d, generator=generator()), randn(s, d, seed=1), poisoned(s, d)
    recurrence_kernel[(1,)](a, b, out, S=s, D=d)
    h, rows = torch.zeros(d).double(), []
    for i in range(s):
        h = a[i].double() * h + b[i].double()
        rows.append(h)
    check(out, torch.stack(rows), atol=1e-5)


@triton.jit
def sort_kernel(x_ptr, out_ptr, N: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0)
    x = tl.load(x_ptr + row * N + tl.arange(0, N))
    tl.store(out_ptr + row * (N + K) + tl.arange(0, N), tl.sort(x))
    tl.store(out_ptr + row * (N + K) + N + tl.arange(0, K), tl.topk(x, K))


@program
def sort_and_topk(arch):
    x, out = randn(3, 128), poisoned(3, 136)
    sort_kernel[(3,)](x, out, N=128, K=8, num_warps=2)
    assert torch.equal(out[:, :128], x.sort(1).values)
    assert torch.equal(out[:, 128:], x.topk(8).values)


@triton.jit
def histogram_kernel(x_ptr, count_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    counts = tl.histogram(x, BINS, mask=at < n)
    tl.atomic_add(count_ptr + tl.arange(0, BINS), counts, sem="relaxed")


@program
def histogram(arch):
    x = torch.randint(0, 64, (1000,), generator=generator()).int()
    counts = torch.zeros(64, dtype=torch.int32)
    histogram_kernel[(4,)](x, counts, 1000, BINS=64, BLOCK=256)
    assert torch.equal(counts.long(), torch.bincount(x, minlength=64))


@triton.jit
def merge(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    n = n_a + n_b
    share = tl.where(n == 0, 0.0, n_b / n)
    delta = mean_b - mean_a
    return mean_a + delta * share, m2_a + m2_b + delta * delta * n_a * share, n


@triton.jit
def welford_kernel(x_ptr, mean_ptr, var_ptr, best_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + at, mask=at < n, other=0.0)
    weight = (at < n).to(tl.float32)
    mean, m2, count = tl.reduce((x * weight, x * 0.0, weight), 0, merge)
    tl.store(mean_ptr + row, mean)
    tl.store(var_ptr + row, m2 / count)
    tl.store(best_ptr + row, tl.argmax(tl.where(at < n, x, -float("inf")), axis=0))


@program
def variance_and_argmax(arch):
    """A reduction of three values by a function of the program."""
    x, mean, var = randn(4, 300), poisoned(4), poisoned(4)
    best = poisoned(4, dtype=torch.int32)
    welford_kernel[(4,)](x, mean, var, best, 300, BLOCK=512)
    check(mean, x.double().mean(1), atol=1e-6)
    check(var, x.double().var(1, correction=0), rtol=1e-5)
    assert torch.equal(best.long(), x.argmax(1))


@triton.jit
def last_block_kernel(x_ptr, part_ptr, ticket_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Blocks leave their sums in memory; the one that comes last adds them."""
    pid, blocks = tl.program_id(0), tl.num_programs(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(part_ptr + pid, tl.sum(tl.load(x_ptr + at, mask=at < n, other=0.0)))
    tl.debug_barrier()
    if tl.atomic_add(ticket_ptr, 1) == blocks - 1:
        parts = tl.load(part_ptr + tl.arange(0, 16), mask=tl.arange(0, 16) < blocks, other=0.0)
        tl.store(out_ptr, tl.sum(parts))


@program
def sum_by_the_last_block(arch):
    x, parts, out = randn(2500), poisoned(16), poisoned(1)
    ticket = torch.zeros(1, dtype=torch.int32)
    last_block_kernel[(10,)](x, parts, ticket, out, 2500, BLOCK=256)
    check(out, x.double().sum().reshape(1), atol=1e-4)


@triton.jit
def atomics_kernel(x_ptr, key_ptr, sum_ptr, most_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x, key = tl.load(x_ptr + at, mask=inside), tl.load(key_ptr + at, mask=inside)
    tl.atomic_add(sum_ptr + key, x, mask=inside)
    tl.atomic_max(most_ptr + key, x, mask=inside)


@program
def scatter_add_and_max(arch):
    n, keys = 700, 13
    x, key = randn(n), torch.randint(0, keys, (n,), generator=generator()).int()
    total, most = torch.zeros(keys), torch.full((keys,), -1e30)
    atomics_kernel[(3,)](x, key, total, most, n, BLOCK=256)
    check(total, torch.zeros(keys).double().index_add(0, key, x.double()), atol=1e-4)
    expected = torch.full((keys,), -1e30).scatter_reduce(0, key.long(), x, "amax")
    assert torch.equal(most, expected)


@triton.jit
def spmv_kernel(start_ptr, column_ptr, value_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    begin, end = tl.load(start_ptr + row), tl.load(start_ptr + row + 1)
    total = tl.zeros([BLOCK], tl.float32)
    for base in range(begin, end, BLOCK):
        at = base + tl.arange(0, BLOCK)
        column = tl.load(column_ptr + at, mask=at < end, other=0)
        value = tl.load(value_ptr + at, mask=at < end, other=0.0)
        total += value * tl.load(x_ptr + column)
    tl.store(out_ptr + row, tl.sum(total))


@program
def sparse_matrix_vector(arch):
    """Loops whose length is read from memory."""
    dense = randn(20, 90) * (torch.rand(20, 90, generator=generator(5)) < 0.3)
    dense[7] = 0
    sparse, x, out = dense.to_sparse_csr(), randn(90, seed=1), poisoned(20)
    start, column = sparse.crow_indices().int(), sparse.col_indices().int()
    spmv_kernel[(20,)](start, column, sparse.values(), x, out, BLOCK=16, num_warps=1)
    check(out, dense.double() @ x.double(), atol=1e-5)
