"""Attention, forward, backward and paged, and a scan of a state-space model."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
from triton_programs.programs import Program, check, collect, generator, poisoned, randn

PROGRAMS: list[Program] = []
program = collect(PROGRAMS)
LOG2E = math.log2(math.e)


def reference(q, k, v, causal):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if causal:
        scores = scores + torch.full(scores.shape[-2:], -float("inf")).triu(1)
    return torch.softmax(scores, -1) @ v


@triton.jit
def forward_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, l_ptr, S, scale,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """[heads, S, D]; ``scale`` includes log2(e); l: logarithm of the sum, base 2."""
    start = tl.program_id(0) * BM
    rm, rn, rd = start + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    base = tl.program_id(1) * S * D
    q = tl.load(q_ptr + base + rm[:, None] * D + rd, mask=rm[:, None] < S, other=0.0)
    m = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    end = min(start + BM, S) if CAUSAL else S
    for j in range(0, end, BN):
        inside = j + rn < S
        k = tl.load(k_ptr + base + (j + rn[None, :]) * D + rd[:, None], mask=inside[None, :])
        s = tl.where(inside[None, :], tl.dot(q, k) * scale, -float("inf"))
        if CAUSAL:
            s = tl.where(rm[:, None] >= j + rn[None, :], s, -float("inf"))
        largest = tl.maximum(m, tl.max(s, 1))
        p = tl.exp2(s - largest[:, None])
        factor = tl.exp2(m - largest)
        total = total * factor + tl.sum(p, 1)
        v = tl.load(v_ptr + base + (j + rn[:, None]) * D + rd, mask=inside[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * factor[:, None])
        m = largest
    o = (acc / total[:, None]).to(o_ptr.dtype.element_ty)
    tl.store(o_ptr + base + rm[:, None] * D + rd, o, mask=rm[:, None] < S)
    tl.store(l_ptr + tl.program_id(1) * S + rm, m + tl.log2(total), mask=rm < S)


def forward(q, k, v, causal):
    heads, s, d = q.shape
    o, lse = torch.full_like(q, float("nan")), poisoned(heads, s)
    forward_kernel[(triton.cdiv(s, 64), heads)](
        q, k, v, o, lse, s, LOG2E / d**0.5, D=d, BM=64, BN=32, CAUSAL=causal, num_stages=2
    )
    return o, lse


@program
def attention_forward(arch):
    for causal in (False, True):
        q, k, v = randn(3, 2, 100, 64, dtype=torch.float16)
        o, _ = forward(q, k, v, causal)
        check(o, reference(q.double(), k.double(), v.double(), causal), rtol=2e-3)


@triton.jit
def backward_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, l_ptr, delta_ptr, dq_ptr, dk_ptr, dv_ptr, S, scale,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Each program has a block of keys; gradients of queries are added by atomics."""
    rn, rd = tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, D)
    base, row = tl.program_id(1) * S * D, tl.program_id(1) * S
    k = tl.load(k_ptr + base + rn[:, None] * D + rd)
    v = tl.load(v_ptr + base + rn[:, None] * D + rd)
    dk, dv = tl.zeros((BN, D), tl.float32), tl.zeros((BN, D), tl.float32)
    for start in range(0, S, BM):
        rm = start + tl.arange(0, BM)
        q = tl.load(q_ptr + base + rm[:, None] * D + rd)
        do = tl.load(do_ptr + base + rm[:, None] * D + rd)
        p = tl.exp2(tl.dot(q, k.T) * (scale * 1.4426950408889634)
                    - tl.load(l_ptr + row + rm)[:, None])  # fmt: skip
        dv = tl.dot(p.to(do.dtype).T, do, dv)
        ds = p * (tl.dot(do, v.T) - tl.load(delta_ptr + row + rm)[:, None]) * scale
        dk = tl.dot(ds.to(q.dtype).T, q, dk)
        tl.atomic_add(dq_ptr + base + rm[:, None] * D + rd, tl.dot(ds.to(k.dtype), k))
    tl.store(dk_ptr + base + rn[:, None] * D + rd, dk)
    tl.store(dv_ptr + base + rn[:, None] * D + rd, dv)


@program
def attention_backward(arch):
    heads, s, d = 1, 64, 32
    q, k, v, do = randn(4, heads, s, d, dtype=torch.float16)
    o, lse = forward(q, k, v, False)
    delta = (o.float() * do.float()).sum(-1)
    dq, dk, dv = torch.zeros(heads, s, d), poisoned(heads, s, d), poisoned(heads, s, d)
    backward_kernel[(s // 32, heads)](
        q, k, v, do, lse, delta, dq, dk, dv, s, d**-0.5, D=d, BM=32, BN=32, num_stages=1
    )
    inputs = [each.double().requires_grad_() for each in (q, k, v)]
    reference(*inputs, False).backward(do.double())
    for actual, each in zip((dq, dk, dv), inputs, strict=True):
        check(actual, each.grad, rtol=1e-2)


@triton.jit
def descriptor_kernel(
    q, k, v, o, scale, S, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    SPECIALIZED: tl.constexpr,
):  # fmt: skip
    base = tl.program_id(1) * S
    start = base + tl.program_id(0) * BM
    x = q.load([start, 0])
    m = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for j in tl.range(0, S, BN, warp_specialize=SPECIALIZED):
        s = tl.dot(x, k.load([base + j, 0]).T) * scale
        largest = tl.maximum(m, tl.max(s, 1))
        p = tl.exp2(s - largest[:, None])
        factor = tl.exp2(m - largest)
        total = total * factor + tl.sum(p, 1)
        acc = tl.dot(p.to(q.dtype), v.load([base + j, 0]), acc * factor[:, None])
        m = largest
    o.store([start, 0], (acc / total[:, None]).to(o.dtype))


def with_descriptors(specialized: bool) -> None:
    heads, s, d = 2, 128, 64
    q, k, v = randn(3, heads, s, d, dtype=torch.bfloat16)
    o = torch.full_like(q, float("nan"))
    maps = [
        TensorDescriptor.from_tensor(x.view(heads * s, d), [block, d])
        for x, block in ((q, 128), (k, 64), (v, 64), (o, 128))
    ]
    descriptor_kernel[(s // 128, heads)](
        *maps, LOG2E / d**0.5, s, D=d, BM=128, BN=64, SPECIALIZED=specialized, num_stages=2
    )
    check(o, reference(q.double(), k.double(), v.double(), False), rtol=2e-2)


@program
def attention_with_descriptors(arch):
    with_descriptors(specialized=False)


@collect(PROGRAMS, ("sm_100a",))
def attention_with_roles(arch):
    with_descriptors(specialized=True)


@triton.jit
def paged_kernel(
    q_ptr, k_ptr, v_ptr, table_ptr, length_ptr, part_ptr, lse_ptr, scale, PAGES,
    HEADS: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """One query for each sequence; keys and values lie in pages; splits are combined later."""
    sequence, split = tl.program_id(0), tl.program_id(1)
    rh, rd, rn = tl.arange(0, HEADS), tl.arange(0, D), tl.arange(0, PAGE)
    q = tl.load(q_ptr + (sequence * HEADS + rh[:, None]) * D + rd)
    length = tl.load(length_ptr + sequence)
    m = tl.full((HEADS,), -1e30, tl.float32)
    total = tl.zeros((HEADS,), tl.float32)
    acc = tl.zeros((HEADS, D), tl.float32)
    for page in range(split, tl.cdiv(length, PAGE), SPLITS):
        at = tl.load(table_ptr + sequence * PAGES + page) * PAGE + rn
        k = tl.load(k_ptr + at[None, :] * D + rd[:, None])
        s = tl.where(page * PAGE + rn[None, :] < length, tl.dot(q, k) * scale, -1e30)
        largest = tl.maximum(m, tl.max(s, 1))
        p = tl.exp2(s - largest[:, None])
        factor = tl.exp2(m - largest)
        total = total * factor + tl.sum(p, 1)
        acc = tl.dot(p.to(q.dtype), tl.load(v_ptr + at[:, None] * D + rd), acc * factor[:, None])
        m = largest
    row = (sequence * SPLITS + split) * HEADS + rh
    tl.store(part_ptr + row[:, None] * D + rd, acc / tl.maximum(total, 1e-30)[:, None])
    tl.store(lse_ptr + row, tl.where(total > 0, m + tl.log2(total), -1e30))


@triton.jit
def combine_kernel(
    part_ptr, lse_ptr, o_ptr, HEADS: tl.constexpr, D: tl.constexpr, SPLITS: tl.constexpr
):
    row = tl.program_id(0) * SPLITS * HEADS + tl.program_id(1)
    at = row + tl.arange(0, SPLITS) * HEADS
    lse = tl.load(lse_ptr + at)
    weight = tl.exp2(lse - tl.max(lse, 0))
    parts = tl.load(part_ptr + at[:, None] * D + tl.arange(0, D))
    o = tl.sum(parts * weight[:, None], 0) / tl.sum(weight, 0)
    tl.store(o_ptr + (tl.program_id(0) * HEADS + tl.program_id(1)) * D + tl.arange(0, D), o)


@program
def paged_decoding(arch):
    sequences, heads, d, page, splits = 3, 16, 32, 16, 4
    lengths = torch.tensor([50, 1, 33], dtype=torch.int32)
    table = torch.randperm(12, generator=generator()).int().view(3, 4)
    q = randn(sequences, heads, d, dtype=torch.float16)
    k, v = randn(2, 12 * page, d, dtype=torch.float16, seed=1)
    parts, lse = poisoned(sequences, splits, heads, d), poisoned(sequences, splits, heads)
    o = poisoned(sequences, heads, d)
    paged_kernel[(sequences, splits)](
        q, k, v, table, lengths, parts, lse, LOG2E / d**0.5, 4,
        HEADS=heads, D=d, PAGE=page, SPLITS=splits,
    )  # fmt: skip
    combine_kernel[(sequences, heads)](parts, lse, o, HEADS=heads, D=d, SPLITS=splits)
    for i, length in enumerate(lengths.tolist()):
        rows = (table[i].long()[:, None] * page + torch.arange(page)).flatten()[:length]
        exact = reference(q[i].double(), k[rows].double(), v[rows].double(), False)
        check(o[i], exact, rtol=2e-3)


@triton.jit
def state_kernel(x_ptr, dt_ptr, a_ptr, b_ptr, c_ptr, y_ptr, S, D: tl.constexpr, N: tl.constexpr):
    """A selective scan: a state of D x N that each step decays and feeds."""
    rd, rn = tl.arange(0, D), tl.arange(0, N)
    a = tl.load(a_ptr + rd[:, None] * N + rn)
    h = tl.zeros((D, N), tl.float32)
    for t in range(S):
        dt = tl.load(dt_ptr + t * D + rd)[:, None]
        x = tl.load(x_ptr + t * D + rd)[:, None]
        h = tl.exp(dt * a) * h + dt * x * tl.load(b_ptr + t * N + rn)[None, :]
        tl.store(y_ptr + t * D + rd, tl.sum(h * tl.load(c_ptr + t * N + rn)[None, :], 1))


@program
def selective_scan(arch):
    s, d, n = 20, 32, 16
    x, y = randn(s, d), poisoned(s, d)
    dt = torch.rand(s, d, generator=generator(1))
    a = -torch.rand(d, n, generator=generator(2))
    b, c = randn(s, n, seed=3), randn(s, n, seed=4)
    state_kernel[(1,)](x, dt, a, b, c, y, s, D=d, N=n)
    h = torch.zeros(d, n).double()
    for t in range(s):
        step = dt[t].double()[:, None]
        h = torch.exp(step * a.double()) * h + step * x[t].double()[:, None] * b[t].double()
        check(y[t], h @ c[t].double(), atol=1e-5)
