"""Gemms of tensors with rows that the tensor memory accelerator cannot load: copies with others."""

from __future__ import annotations

import pytest
import torch
from sm90.gemm_kernels import poisoned
from transform.odd_rows import OFF, program, random, tolerance

import tilelang
import tilelang.language as T
from tilelang.transform import remarks_of

TARGETS = ["sm_80", "sm_90a", "sm_100a", "sm_120a"]


def remarks(**options) -> list[str]:
    return [r.message for r in remarks_of("realign_rows", program(**options), "sm_90a")]


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"order": "NT", "dtype": "bfloat16"},
        {"order": "TN", "rows": 199, "columns": 197},
        {"order": "TT", "rows": 201, "columns": 200},
        {"columns": 208},  # of A alone
        {"depth": 80},  # of B alone
        {"depth": 78, "columns": 204},  # of which threads could load 4 or 8 bytes at once
        {"batch": 2, "rows": 195},
        {"apart": 83},
        {"dtype": "float8_e4m3fn", "order": "NT", "k": 64},
        {"dtype": "int8", "sums": "int32", "order": "NT", "k": 64},
        {"dtype": "float32", "order": "NT"},
    ],
    ids=str,
)
def test_results_are_those_of_a_float64_product(options, target):
    if target == "sm_80" and "float8" in options.get("dtype", ""):
        pytest.skip("sm_80 has no products of float8")
    kernel = tilelang.compile(program(**options), target=target)
    assert any("tl.disable_row_realignment" in r.message for r in kernel.remarks)
    assert ("cp.async.cg" if target == "sm_80" else "cp.async.bulk.tensor") in kernel.get_ptx()
    torch.manual_seed(0)
    sizes = {"rows": 200, "columns": 203, "depth": 77, "order": "NN", "batch": 0} | options
    rows, columns, depth, batch = (sizes[s] for s in ("rows", "columns", "depth", "batch"))
    dtype, sums = options.get("dtype", "float16"), options.get("sums", "float32")
    lead, (ta, tb) = (batch,) if batch else (), sizes["order"]
    a = random((*lead, *((depth, rows) if ta == "T" else (rows, depth))), dtype)
    b = random((*lead, *((columns, depth) if tb == "T" else (depth, columns))), dtype)
    if apart := options.get("apart"):
        whole = torch.full((rows, apart), float("nan")).half()
        whole[:, :depth] = a
        a = whole[:, :depth]
    c = poisoned((max(batch, 1), rows, columns), sums, "cpu")
    kernel(a, b, c)
    want_a = a.double().mT if ta == "T" else a.double()
    want_b = b.double().mT if tb == "T" else b.double()
    want = (want_a @ want_b).view(c.shape)
    torch.testing.assert_close(c.double(), want, **tolerance(dtype))


@pytest.mark.parametrize("target", TARGETS)
def test_rows_of_the_call(target):
    kernel = tilelang.compile(program(rows=T.dynamic("rows"), columns=208), target=target)
    torch.manual_seed(0)
    for rows in (1, 70, 205):
        a, b = torch.randn(rows, 77).half(), torch.randn(77, 208).half()
        c = poisoned((1, rows, 208), "float32", "cpu")
        kernel(a, b, c)
        torch.testing.assert_close(c[0].double(), a.double() @ b.double(), rtol=1e-4, atol=1e-3)


def test_remark_says_what_is_copied():
    (message,) = remarks()
    assert "A (rows of 128 instead of 77 elements) and B (rows of 256 instead of 203 elements)" in (
        message
    )
    (message,) = remarks(columns=208)
    assert "A (rows" in message and "B (rows" not in message


@pytest.mark.parametrize(
    "options",
    [
        {"depth": 80, "columns": 208},  # rows that the accelerator loads
        {"rows": 190},  # three blocks load an element of B
        {"columns": 187},
        {"writes": True},
    ],
    ids=str,
)
def test_others_stay_as_they_are(options):
    assert not remarks(**options)


@pytest.mark.parametrize("options", [{"rows": 1}, {"rows": T.dynamic("rows")}, {"columns": 65}])
def test_long_loops_pay_for_one_load(options):
    (message,) = remarks(depth=16 * 32 - 1, **options)
    assert "A (rows of 512 instead of 511 elements)" in message


def test_pass_option_turns_it_off():
    kernel = tilelang.compile(program(), target="sm_90a", pass_configs=OFF)
    assert len(kernel.spec.launches) == 1 and not len(kernel.spec.workspaces)
    assert len(tilelang.compile(program(), target="sm_90a").spec.launches) == 2


@pytest.mark.parametrize("target", TARGETS)
def test_results_have_the_same_bits(target):
    torch.manual_seed(0)
    a, b = torch.randn(200, 77).half(), torch.randn(77, 203).half()
    results = []
    for configs in ({}, OFF):
        results.append(poisoned((1, 200, 203), "float32", "cpu"))
        tilelang.compile(program(), target=target, pass_configs=configs)(a, b, results[-1])
    assert torch.equal(*results)
