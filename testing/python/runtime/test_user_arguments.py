"""Calls with whatever users pass: scalars of every library, tensors that no kernel can take."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentError

N = 64


@pytest.fixture(scope="module")
def scale():
    @T.prim_func
    def kernel(
        A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32"), s: T.float32, n: T.int32
    ):
        with T.Kernel(1, threads=N):
            for i in T.Parallel(N):
                B[i] = A[i] * s + T.cast(n, "float32")

    return tilelang.compile(kernel, target="sm_90a")


FLOATS = {
    "float": 1.5,
    "int": 3,
    "bool": True,
    "numpy float32": np.float32(1.5),
    "numpy float16": np.float16(-2.5),
    "numpy int": np.int16(7),
    "numpy bool": np.bool_(True),
    "numpy 0-d": np.array(0.75),
    "torch float32": torch.tensor(1.5),
    "torch bfloat16": torch.tensor(-0.5, dtype=torch.bfloat16),
    "torch int": torch.tensor(4),
    "torch parameter": torch.nn.Parameter(torch.tensor(2.25)),
}


@pytest.mark.parametrize("kind", FLOATS)
def test_scalars_of_every_library(scale, kind):
    value = FLOATS[kind]
    number = float(getattr(value, "item", lambda: value)())
    a, b = torch.randn(N), torch.full((N,), float("nan"))
    scale(a, b, value, 2)
    torch.testing.assert_close(b.double(), a.double() * number + 2, rtol=1e-6, atol=1e-6)
    scale(a, b.fill_(0), n=np.int64(-3), s=value)
    torch.testing.assert_close(b.double(), a.double() * number - 3, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("value", [torch.tensor(5), np.array(5), np.uint8(5), torch.tensor(True)])
def test_integers_of_every_library(scale, value):
    a, b = torch.randn(N), torch.full((N,), float("nan"))
    scale(a, b, 1.0, value)
    torch.testing.assert_close(b.double(), a.double() + int(value), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.tensor(3.0), "'n' must be an integer .int32., not a float"),
        (torch.tensor([3]), "'n' must be an integer .int32., not a tensor"),
        (np.float32(3), "'n' must be an integer .int32., not a float"),
        (np.int64(2**40), "'n' is 1099511627776, which does not fit int32"),
        (torch.tensor(1 + 2j), "'n' must be an integer"),
        ([3], "'n' must be an integer .int32., not a list or tuple"),
    ],
)
def test_scalars_that_do_not_fit(scale, value, message):
    with pytest.raises(ArgumentError, match=message):
        scale(torch.randn(N), torch.empty(N), 1.0, value)


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def quiet(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


TENSORS = {
    "complex64": (lambda: torch.randn(N, dtype=torch.complex64), "has dtype complex64"),
    "complex128": (lambda: np.zeros(N, np.complex128), "has dtype complex128"),
    "meta": (lambda: torch.empty(N, device="meta"), "is on the meta device"),
    "sparse": (lambda: torch.randn(N).to_sparse(), "layout is sparse_coo.*to_dense"),
    "csr": (lambda: torch.randn(8, 8).to_sparse_csr(), "layout is sparse_csr"),
    "mkldnn": (lambda: torch.randn(N).to_mkldnn(), "layout is mkldnn"),
    "quantized": (
        lambda: torch.quantize_per_tensor(torch.randn(N), 0.1, 0, torch.qint8),
        r"is quantized \(torch.qint8\).*int_repr",
    ),
    "nested": (lambda: torch.nested.nested_tensor([torch.randn(N)]), "is a nested tensor"),
    "fake": (
        lambda: torch._subclasses.FakeTensorMode().from_tensor(torch.randn(N)),
        "has no memory",
    ),
    "read-only": (lambda: read_only(np.zeros(N, np.float32)), "is a read-only array.*copy"),
    "structured": (lambda: np.zeros(N, [("x", "f4")]), "has dtype .*arrays of numbers"),
    "objects": (lambda: np.zeros(N, object), "has dtype object"),
    "text": (lambda: np.zeros(N, "U4"), "has dtype <U4"),
    "big-endian": (lambda: np.zeros(N, ">f4"), "in the other byte order"),
    "strided": (lambda: torch.randn(2 * N)[::2], "is not contiguous.*T.StridedTensor"),
    "reversed": (lambda: np.zeros(N, np.float32)[::-1], "is not contiguous"),
    "expanded": (lambda: torch.zeros(1).expand(N), "is not contiguous"),
    "list": (lambda: [0.0] * N, "must be a tensor of float32, not a list or tuple"),
    "dict": (lambda: {"x": 1}, "must be a tensor of float32, not a dict"),
}


@pytest.mark.parametrize("name", ["A", "B"])
@pytest.mark.parametrize("case", TENSORS)
def test_tensors_no_kernel_can_take(scale, case, name):
    make, message = TENSORS[case]
    args = {"A": torch.randn(N), "B": torch.randn(N), "s": 1.0, "n": 1, name: quiet(make)}
    with pytest.raises(ArgumentError, match=re.compile(rf"argument '{name}' .*{message}", re.S)):
        scale(**args)


def test_what_requires_a_gradient_is_read_and_written(scale):
    """Launches are not recorded by autograd; weights are passed as they are."""
    a, b = torch.nn.Parameter(torch.randn(N)), torch.full((N,), float("nan"), requires_grad=True)
    scale(a, b, 2.0, 1)
    torch.testing.assert_close(b.detach().double(), a.detach().double() * 2 + 1)
    assert b.grad_fn is None


def test_errors_of_other_libraries_stay(scale):
    class Strange:
        def __dlpack__(self, **_):
            raise RuntimeError("not today")

        def __dlpack_device__(self):
            return (1, 0)

    with pytest.raises(RuntimeError, match="not today"):
        scale(Strange(), torch.empty(N), 1.0, 1)


@pytest.fixture(scope="module")
def double():
    @T.prim_func
    def kernel(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            for i in T.Parallel(N):
                B[i] = A[i] * 2.0

    return tilelang.compile(kernel, target="sm_90a")


class Subclass(torch.Tensor):
    pass


WITH_OTHER_MEMORY = {
    "negated": lambda: torch._neg_view(torch.randn(N)),
    "imaginary part of a conjugate": lambda: (
        torch.randn(N, 1, dtype=torch.cfloat).conj().imag[:, 0]
    ),
    "zeros without memory": lambda: torch._efficientzerotensor(N),
    "sparse": lambda: torch.eye(N)[0].to_sparse(),
    "quantized": lambda: torch.quantize_per_tensor(torch.randn(N), 0.1, 0, torch.qint8),
    "meta": lambda: torch.empty(N, device="meta"),
    "nested": lambda: torch.nested.nested_tensor([torch.randn(N)]),
    "complex": lambda: torch.randn(N, dtype=torch.cfloat),
    "conjugate": lambda: torch.randn(N, dtype=torch.cfloat).conj(),
    "steps": lambda: torch.randn(2 * N)[::2],
    "expanded": lambda: torch.randn(1).expand(N),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("kind", WITH_OTHER_MEMORY)
def test_tensors_whose_memory_does_not_hold_their_values_are_refused(double, kind, position):
    args = [torch.randn(N), torch.full((N,), 7.0)]
    args[position] = WITH_OTHER_MEMORY[kind]()
    with pytest.raises(ArgumentError, match=f"argument '{'AB'[position]}'"):
        double(*args)
    if position == 0:
        assert (args[1] == 7).all()


@pytest.mark.parametrize(
    "make", [lambda x: x.requires_grad_(), lambda x: x.as_subclass(Subclass), torch.nn.Parameter]
)
def test_tensors_that_hold_their_values_are_taken(double, make):
    values, b = torch.randn(N), torch.zeros(N)
    double(make(values.clone()), b)
    torch.testing.assert_close(b, values * 2)


def test_views_in_inference_mode_are_refused():
    stride = T.dynamic("stride")

    @T.prim_func
    def kernel(A: T.StridedTensor((N,), (stride,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            for i in T.Parallel(N):
                B[i] = A[i]

    compiled = tilelang.compile(kernel, target="sm_90a")
    with torch.inference_mode():
        a, b = torch.randn(N, dtype=torch.cfloat).conj(), torch.zeros(N)
        with pytest.raises(ArgumentError, match="'A' is a view that negates"):
            compiled(a.imag, b)
        compiled(a.real, b)
        assert torch.equal(b, a.real)


def test_resolved_views_are_taken(double):
    negated, b = torch._neg_view(torch.randn(N)), torch.zeros(N)
    double(negated.resolve_neg(), b)
    torch.testing.assert_close(b, negated * 2)


def test_read_only_arrays_are_refused(double):
    a, b = np.ones(N, np.float32), np.ones(N, np.float32)
    b.flags.writeable = False
    with pytest.raises(ArgumentError, match="'B' is a read-only array"):
        double(a, b)
    assert (b == 1).all()


def shrunk(elements, tensor):
    """``tensor`` after its storage was resized to so many elements."""
    tensor.untyped_storage().resize_(elements * tensor.element_size())
    return tensor


@pytest.mark.parametrize(
    "make",
    [
        lambda: shrunk(N - 1, torch.zeros(N)),
        lambda: shrunk(8, torch.zeros(N)),
        lambda: shrunk(N + 16, torch.zeros(4 * N)[32 : 32 + N]),
        lambda: shrunk(2 * N - 2, torch.zeros(2, N)[1]),
    ],
)
def test_tensors_that_reach_beyond_their_storage(scale, make):
    for args in ((make(), torch.zeros(N)), (torch.zeros(N), make())):
        with pytest.raises(ArgumentError, match="reaches beyond its storage"):
            scale(*args, 1.0, 1)
    device = tilelang.emulator.Device("sm_90a")
    with pytest.raises(ArgumentError, match="reaches beyond its storage"):
        device.map(make())


def test_tensors_that_fill_their_storage(scale):
    for a in (shrunk(N, torch.ones(2 * N)[:N]), torch.ones(1).expand(N).contiguous(),
              torch.ones(2 * N)[N:]):  # fmt: skip
        b = torch.zeros(N)
        scale(a, b, 2.0, 1)
        assert (b == 3).all()
