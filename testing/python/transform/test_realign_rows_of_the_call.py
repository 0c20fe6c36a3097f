"""The same where the call says how long rows are: a tensor is copied or loaded itself."""

from __future__ import annotations

import pytest
import torch
from sm90.gemm_kernels import poisoned
from transform.odd_rows import OFF, program, random, tolerance

import tilelang
import tilelang.language as T
from tilelang.transform import remarks_of

SIZES = ("rows", "columns", "depth")


def of_call(*names: str, **options):
    return program(**options, **{name: T.dynamic(name) for name in names})


def check(kernel, rows, columns, depth, order="NN", dtype="float16", sums="float32") -> None:
    """Compares a call, with outputs poisoned before, with the product in float64."""
    a = random((depth, rows) if order[0] == "T" else (rows, depth), dtype)
    b = random((columns, depth) if order[1] == "T" else (depth, columns), dtype)
    c = poisoned((1, rows, columns), sums, "cpu")
    kernel(a, b, c)
    want_a = a.double().mT if order[0] == "T" else a.double()
    want_b = b.double().mT if order[1] == "T" else b.double()
    torch.testing.assert_close(c[0].double(), want_a @ want_b, **tolerance(dtype))


def copied(kernel, **sizes: int) -> set[str]:
    """Names of the tensors that a call of these sizes copies."""
    attrs = [workspace.attrs for workspace in kernel.spec.workspaces]
    # Expressions print as Python.
    return {str(a["stand_in"].name) for a in attrs if not eval(str(a["stands_in_where"]), sizes)}


def check_sizes(names, options, target="sm_90a") -> None:
    """Compares calls whose rows are whole vectors, all or some of them, or of which none is."""
    kernel = tilelang.compile(of_call(*names, **options), target=target)
    assert any("tl.disable_row_realignment" in r.message for r in kernel.remarks)
    torch.manual_seed(0)
    fixed = {k: options[k] for k in ("order", "dtype", "sums") if k in options}
    for rows, columns, depth in ((205, 203, 77), (200, 208, 80), (193, 200, 65), (33, 31, 37)):
        sizes = {"rows": rows, "columns": columns, "depth": depth}
        sizes |= {"rows": options.get("rows", 200)} if "rows" not in names else {}
        sizes |= {"columns": options["columns"]} if "columns" in options else {}
        check(kernel, **sizes, **fixed)


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    "names, options",
    [
        (SIZES, {}),
        (("depth",), {"order": "NT", "dtype": "float8_e4m3fn", "columns": 208, "k": 64}),
        (("rows", "depth"), {"order": "TT", "dtype": "bfloat16", "columns": 200}),
    ],
    ids=str,
)
def test_results_are_those_of_a_float64_product(names, options):
    check_sizes(names, options)


@pytest.mark.parametrize(
    "options",
    [
        {"order": "NT", "dtype": "bfloat16"},
        {"order": "TN", "rows": 201},
        {"order": "NT", "dtype": "float8_e5m2", "k": 64},
        {"order": "NT", "dtype": "int8", "sums": "int32", "k": 64},
        {"order": "NT", "dtype": "float32"},
    ],
    ids=str,
)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
def test_results_of_other_types_and_orders(options, target):
    if target == "sm_80" and "float8" in options.get("dtype", ""):
        pytest.skip("sm_80 has no products of float8")
    check_sizes(("depth",), {"columns": 208, **options}, target)


def test_each_call_copies_what_it_must():
    kernel = tilelang.compile(of_call(*SIZES), target="sm_90a")
    for sizes, names in (
        ((200, 208, 80), set()),
        ((200, 208, 77), {"A"}),
        ((200, 203, 80), {"B"}),
        ((200, 203, 77), {"A", "B"}),
        ((192, 203, 80), set()),  # three blocks load an element of B, of three iterations
        ((1, 208, 500), {"A"}),  # of sixteen
    ):
        assert copied(kernel, **dict(zip(SIZES, sizes, strict=True))) == names, sizes


def test_calls_leave_nothing_to_later_ones():
    kernel = tilelang.compile(of_call(*SIZES), target="sm_90a")
    torch.manual_seed(0)
    for sizes in ((260, 203, 131), (200, 208, 80), (200, 201, 79), (260, 203, 131)):
        check(kernel, *sizes)


def test_whole_rows_are_loaded_where_they_are():
    """A tensor that is not copied has to begin at a multiple of 16 bytes, a copied one anywhere."""
    kernel = tilelang.compile(of_call("depth", columns=208), target="sm_90a")
    b, c = torch.zeros(80, 208).half(), torch.zeros(1, 200, 208)
    a = torch.zeros(200 * 80 + 1).half()[1:].view(200, 80)
    with pytest.raises(tilelang.errors.ArgumentError, match="'A' must start at a multiple of 16"):
        kernel(a, b, c)


def test_empty_tensors():
    kernel = tilelang.compile(of_call(*SIZES), target="sm_90a")
    for sizes in ((0, 203, 77), (200, 0, 77), (200, 203, 0)):
        check(kernel, *sizes)


@pytest.mark.parametrize(
    "names, options, text",
    [
        (("depth",), {"columns": 208}, "copies A (unless depth % 8 == 0) first"),
        (("rows",), {"columns": 208}, "copies A (rows of 128 instead of 77 elements) first"),
        (("columns",), {"depth": 80}, "copies B (unless columns % 8 == 0) first"),
        (("depth",), {"columns": 208, "dtype": "float32", "order": "NT"}, "unless depth % 4 == 0"),
    ],
)
def test_remark_says_which_calls_copy(names, options, text):
    (message,) = (
        r.message for r in remarks_of("realign_rows", of_call(*names, **options), "sm_90a")
    )
    assert text in message and "tl.disable_row_realignment" in message


@pytest.mark.parametrize(
    "names, options",
    [
        (("rows",), {"depth": 80, "columns": 208}),
        (("depth",), {"rows": 190, "columns": 187, "writes": True}),
        (("rows",), {"columns": 187}),  # three blocks load an element of A
        (
            ("apart",),
            {"columns": 208},
        ),  # where A itself were loaded, its copy's shape would not fit
    ],
)
def test_others_stay_as_they_are(names, options):
    assert not remarks_of("realign_rows", of_call(*names, **options), "sm_90a")


def test_what_is_assumed_needs_no_copy():
    depth = T.dynamic("depth")
    inner = program(depth=8 * depth, columns=208)
    assert not remarks_of("realign_rows", inner, "sm_90a")


def test_one_kernel_for_all_sizes_has_no_copies():
    one = {tilelang.PassConfigKey.TL_DISABLE_LAUNCH_VERSIONS: True}
    kernel = tilelang.compile(of_call(*SIZES), target="sm_90a", pass_configs=one)
    assert len(kernel.spec.launches) == 1
    long = of_call("rows", depth=16 * 32 - 1)  # copies pay in all calls
    assert len(tilelang.compile(long, target="sm_90a", pass_configs=one).spec.launches) == 2


def test_pass_option_turns_it_off():
    configs = OFF | {tilelang.PassConfigKey.TL_DISABLE_TILE_CHOICE: True}
    kernel = tilelang.compile(of_call(*SIZES), target="sm_90a", pass_configs=configs)
    assert len(kernel.spec.launches) == 2 and not len(kernel.spec.workspaces)


def test_batches():
    kernel = tilelang.compile(of_call("depth", rows=195, columns=208, batch=2), target="sm_90a")
    torch.manual_seed(0)
    for depth in (77, 80):
        a, b = torch.randn(2, 195, depth).half(), torch.randn(2, depth, 208).half()
        c = poisoned((2, 195, 208), "float32", "cpu")
        kernel(a, b, c)
        torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("depth", [77, None])
def test_operands_of_a_launch_before(depth):
    """An operand that is not passed stands in for no copy."""
    known, rows, depth = depth is not None, T.dynamic("rows"), depth or T.dynamic("depth")

    @T.prim_func
    def main(
        A: T.Tensor((rows, depth), "float16"),
        B: T.Tensor((208, depth), "float16"),
        C: T.Tensor((rows, 208), "float32"),
    ):
        doubled = T.alloc_global((rows, depth), "float16")
        with T.Kernel(T.ceildiv(depth, 128), rows, threads=128) as (bx, by):
            for i in T.Parallel(128):
                if bx * 128 + i < depth:
                    doubled[by, bx * 128 + i] = A[by, bx * 128 + i] * T.float16(2)
        with T.Kernel(4, T.ceildiv(rows, 64), threads=128) as (bx, by):
            a, b = T.alloc_shared((64, 32), "float16"), T.alloc_shared((64, 32), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(depth, 32), num_stages=2):
                T.copy(doubled[by * 64, step * 32], a)
                T.copy(B[bx * 64, step * 32], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[by * 64, bx * 64])

    kernel = tilelang.compile(main, target="sm_90a")
    copies = [w for w in kernel.spec.workspaces if str(w.name).endswith("_rows")]
    assert len(copies) == (2 if known else 0)
    torch.manual_seed(0)
    for sizes in ((70, 77), (230, 77)) + (() if known else ((230, 80),)):
        a, b = torch.randn(sizes).half(), torch.randn(208, sizes[1]).half()
        c = poisoned((sizes[0], 208), "float32", "cpu")
        kernel(a, b, c)
        torch.testing.assert_close(c.double(), 2 * a.double() @ b.double().T, rtol=1e-4, atol=1e-3)
