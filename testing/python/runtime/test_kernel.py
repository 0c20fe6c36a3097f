"""The kernel object, compiled from hand-written CUDA C++."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tilelang
from runtime import handmade as hm
from tilelang import errors, target
from tilelang.jit.kernel import JITKernel, normalize_out_idx
from tilelang.jit.lower import LoweredKernel
from tilelang.runtime.code import assembling

AXPY = r"""
extern "C" __global__ void __launch_bounds__(128)
axpy(const float* x, const float* y, float* z, float a, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i < n) z[i] = a * x[i] + y[i];
}
"""


def axpy(arch="auto", out_idx=None, source=AXPY):
    n = hm.var("n")
    x, y, z = (hm.tensor(name, "float32", (n,)) for name in "XYZ")
    a = hm.var("a", "float32")
    launch = hm.launch("axpy", (hm.ceildiv(n, 128),), (128,), [x, y, z, a, n])
    spec = hm.spec("axpy", [x, y, z, a], [launch])
    lowered = LoweredKernel(source, source, (), spec)
    return JITKernel(None, lowered, target.resolve(arch), out_idx)


@pytest.fixture(autouse=True)
def private_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_code_for_every_architecture(arch):
    kernel = axpy(arch)
    assert f".target {arch}" in kernel.get_ptx()
    assert "FFMA" in kernel.get_sass()
    usage = kernel.resource_usage["axpy"]
    assert 4 <= kernel.n_regs == usage.registers <= 255
    assert kernel.n_spills == 0 and usage.static_shared_memory == 0
    assert kernel.artifact.cubin.startswith(b"\x7fELF")


def test_machine_code_is_made_when_it_is_asked_for(tmp_path):
    kernel = axpy("sm_100a" if str(target.device_target()) != "sm_100a" else "sm_80")
    entries = lambda: len(list((tmp_path / "cache").rglob("*.tlk")))  # noqa: E731
    kernel.get_ptx()
    assert entries() == 1
    ptx = kernel.get_ptx()
    assert kernel.artifact.cubin.startswith(b"\x7fELF") and kernel.n_regs >= 4
    assert entries() == 2 and kernel.get_ptx() == ptx
    with assembling():
        assert axpy("sm_90a").artifact._whole.ptx
    assert entries() == 3


def test_source_and_exports(tmp_path, capsys):
    kernel = axpy("sm_90a")
    kernel.export_sources(tmp_path / "k.cu")
    kernel.export_ptx(tmp_path / "k.ptx")
    kernel.export_sass(tmp_path / "k.sass")
    kernel.export_cubin(tmp_path / "k.cubin")
    assert (tmp_path / "k.cu").read_text() == kernel.get_kernel_source() == AXPY
    assert (tmp_path / "k.ptx").read_text() == kernel.get_ptx()
    assert (tmp_path / "k.cubin").read_bytes() == kernel.artifact.cubin
    assert "EXIT" in (tmp_path / "k.sass").read_text()
    kernel.show_ptx()
    assert ".visible .entry axpy" in capsys.readouterr().out


def test_spills_are_counted():
    body = "".join(f"float v{i} = x[{i}];" for i in range(64))
    use = "".join(f"z[{i}] = v{i} * a;" for i in reversed(range(64)))
    source = AXPY.replace("128)\naxpy", "128, 16)\naxpy").replace(
        "int i =", f"{body} __syncthreads(); {use} int i ="
    )
    kernel = axpy("sm_90a", source=source)
    assert kernel.n_regs <= 32 and kernel.n_spills > 0


def test_a_user_error_shows_no_internal_frames():
    with pytest.raises(errors.ArgumentError) as caught:
        axpy("sm_90a")(1)
    files = [entry.path.name for entry in caught.traceback]
    assert files == ["test_kernel.py", "errors.py"]


def test_keyword_arguments():
    kernel = axpy("sm_90a", out_idx=[-2])
    with pytest.raises(errors.ArgumentError, match=r"takes \(X, Y, a\): 'Y' is missing"):
        kernel(torch.zeros(3), a=1.0)
    with pytest.raises(errors.ArgumentError, match=r"takes \(X, Y, a\): no parameter 'Z'"):
        kernel(torch.zeros(3), torch.zeros(3), a=1.0, Z=3)


@pytest.mark.parametrize(
    ("given", "count", "expected"),
    [(None, 3, None), (-1, 3, [2]), ([0, -1], 3, [0, 2]), ((1,), 2, [1]), ([], 2, [])],
)
def test_out_idx(given, count, expected):
    assert normalize_out_idx(given, count) == expected


@pytest.mark.parametrize("given", [3, [-4], [0, -3], ["x"], [1.5]])
def test_wrong_out_idx_is_refused(given):
    with pytest.raises(errors.ConfigError, match="out_idx"):
        normalize_out_idx(given, 3)


def test_source_that_does_not_compile_is_our_defect():
    with pytest.raises(errors.InternalError, match=r"identifier .?nope.? is undefined") as caught:
        axpy("sm_90a", source='#line 7 "user.py"\nint i = nope;')
    assert "generated code for user.py:7" in str(caught.value)


class Fault(errors.EmulatorError):
    """An error with more in it than a message."""

    def __init__(self, lane):
        super().__init__(f"lane {lane} is at fault")
        self.lane = lane


class FaultyDevice:
    def load_ptx(self, text):
        assert ".visible .entry axpy" in text
        return self

    def __getitem__(self, name):
        assert name == "axpy"
        return self

    def launch(self, grid, block, args, *, cluster, smem, programmatic=False, stream=None):
        assert not programmatic
        self.seen = (grid, block, args, cluster, smem)
        raise self.error


@pytest.mark.parametrize("error", [Fault(7), KeyboardInterrupt(), ZeroDivisionError("mine")])
def test_errors_of_the_emulator_arrive_unchanged(monkeypatch, error):
    device = FaultyDevice()
    device.error = error
    package = type(tilelang)("tilelang.emulator")
    package.Device, package.Stream = lambda arch: device, tilelang.emulator.Stream
    monkeypatch.setitem(__import__("sys").modules, "tilelang.emulator", package)
    x, y, z = torch.randn(3, 1000)
    with pytest.raises(type(error)) as caught:
        axpy("sm_90a")(x, y, z, 0.5)
    assert caught.value is error
    grid, block, args, cluster, smem = device.seen
    assert (grid, block, cluster, smem) == ((8, 1, 1), (128, 1, 1), None, 0)
    assert args[3:] == [np.float32(0.5).tobytes(), np.int32(1000).tobytes()]
    args[2][:] = np.float32(3).view(np.uint32)
    assert bool((z == 3).all()), "the kernel writes to the caller's memory"
    assert args[0].ctypes.data == x.data_ptr()


def test_a_torch_without_streams_in_its_tensors_is_refused(monkeypatch):
    old = type(torch)("torch")
    old.Tensor, old.__version__ = object, "2.4.0"
    monkeypatch.setitem(__import__("sys").modules, "torch", old)
    with pytest.raises(errors.ConfigError, match=r"torch 2\.4\.0 is too old\nnote: use torch"):
        axpy("sm_90a")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("n", [1, 127, 128, 1003])
def test_emulated_result(arch, n):
    x, y = torch.randn(n), torch.randn(n)
    z = torch.full_like(x, float("nan"))
    assert axpy(arch)(x, y, z, 0.75) is None
    torch.testing.assert_close(z, 0.75 * x + y)


def test_emulated_outputs_belong_to_the_library_of_the_arguments():
    x, y = torch.randn(300), torch.randn(300)
    kernel = axpy("sm_90a", out_idx=2)
    from_torch, from_numpy = kernel(x, y, 2), kernel(x.numpy(), y.numpy(), a=2)
    assert isinstance(from_torch, torch.Tensor) and isinstance(from_numpy, np.ndarray)
    torch.testing.assert_close(from_torch, 2 * x + y)
    assert np.array_equal(from_numpy, from_torch.numpy())
    from_numpy += 1


def test_emulated_out_of_bounds_access_is_reported():
    kernel = axpy("sm_90a", source=AXPY.replace("i < n", "i < n + 1"))
    with pytest.raises(errors.UserError, match="axpy"):
        kernel(torch.zeros(100), torch.zeros(100), torch.zeros(100), 1.0)


@pytest.mark.requires_cuda
@pytest.mark.parametrize("n", [1, 127, 128, 1000003])
def test_gpu_result(n):
    x, y = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
    z = torch.full_like(x, float("nan"))
    assert axpy()(x, y, z, 0.75) is None
    torch.testing.assert_close(z, 0.75 * x + y)


@pytest.mark.requires_cuda
def test_gpu_output_is_allocated_on_the_same_device():
    x, y = torch.randn(1001, device="cuda"), torch.randn(1001, device="cuda")
    z = axpy(out_idx=2)(x, y, a=2)
    assert isinstance(z, torch.Tensor) and z.device == x.device
    torch.testing.assert_close(z, 2 * x + y)


@pytest.mark.requires_cuda
@pytest.mark.parametrize("library", ["cupy", "jax.numpy"])
def test_gpu_arrays_of_other_libraries(library, monkeypatch):
    # JAX takes three quarters of the memory at once, which other tests need.
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    xp = pytest.importorskip(library)
    x, y = (xp.arange(n, n + 501, dtype=xp.float32) for n in (0, 7))
    z = axpy(out_idx=2)(x, y, a=3)
    assert isinstance(z, type(x))
    np.testing.assert_array_equal(np.array(z.tolist()), 4 * np.arange(501.0) + 7)


@pytest.mark.requires_cuda
def test_gpu_launch_is_on_the_callers_stream():
    kernel = axpy()
    n = 1 << 24
    x, y, z = (torch.zeros(n, device="cuda") for _ in range(3))
    kernel(x, y, z, 1.0)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        x.fill_(3.0)
        kernel(x, y, z, 2.0)
    # Work on the stream is still after the sleep: a launch elsewhere would show old zeros.
    stream.synchronize()
    assert bool((z == 6).all())


@pytest.mark.requires_cuda
def test_gpu_launch_can_be_captured_in_a_graph():
    kernel = axpy()
    x, y, z = (torch.randn(4096, device="cuda") for _ in range(3))
    kernel(x, y, z, 1.0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(x, y, z, 3.0)
    x.normal_()
    graph.replay()
    torch.testing.assert_close(z, 3 * x + y)


@pytest.mark.requires_cuda
def test_gpu_launch_from_another_thread():
    import threading

    kernel = axpy(out_idx=2)
    x, y = torch.randn(777, device="cuda"), torch.randn(777, device="cuda")
    results = []
    threads = [threading.Thread(target=lambda: results.append(kernel(x, y, 0.5))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for z in results:
        torch.testing.assert_close(z, 0.5 * x + y)


@pytest.mark.requires_cuda
def test_gpu_launch_that_the_driver_refuses():
    n = hm.var("n")
    x = hm.tensor("X", "float32", (n,))
    spec = hm.spec("k", [x], [hm.launch("axpy", (1,), (2048,), [x, x, x, n, n])])
    kernel = JITKernel(None, LoweredKernel(AXPY, AXPY, (), spec), target.resolve("auto"))
    with pytest.raises(errors.DriverError, match=r"block \(2048, 1, 1\).*CUDA_ERROR_INVALID_VALUE"):
        kernel(torch.zeros(8, device="cuda"))


TMA = r"""
struct alignas(64) CUtensorMap { unsigned long long opaque[16]; };
extern "C" __global__ void tile(const __grid_constant__ CUtensorMap map, float* out, int x, int y) {
  __shared__ alignas(128) float smem[8][16];
  __shared__ alignas(8) unsigned long long bar;
  unsigned bar_at = __cvta_generic_to_shared(&bar), smem_at = __cvta_generic_to_shared(smem);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(bar_at));
    asm volatile("fence.proxy.async.shared::cta;");
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 512;" ::"r"(bar_at));
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];" ::"r"(smem_at), "l"(&map), "r"(x), "r"(y),
                 "r"(bar_at) : "memory");
  }
  __syncthreads();
  asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra W; }"
               ::"r"(bar_at) : "memory");
  out[threadIdx.x] = smem[threadIdx.x / 16][threadIdx.x % 16];
}
"""


def tensor_map_kernel(arch):
    rows, columns = hm.var("rows"), hm.var("columns")
    a = hm.tensor("A", "float32", (rows, columns))
    out = hm.tensor("Out", "float32", (8, 16))
    vx, vy = hm.var("x"), hm.var("y")
    tensor_map = hm.tensor_map(a, (columns, rows), (hm.times(columns, 4),), (16, 8))
    launch = hm.launch("tile", (1,), (128,), [tensor_map, out, vx, vy])
    spec = hm.spec("tile", [a, out, vx, vy], [launch])
    return JITKernel(None, LoweredKernel(TMA, TMA, (), spec), target.resolve(arch), 1)


CORNERS = [(0, 0), (4, 5), (32, 8), (40, 30)]


def check_tensor_map(kernel, device, corner):
    x, y = corner
    data = torch.randn(33, 44, device=device)
    padded = torch.zeros(64, 64, device=device)
    padded[:33, :44] = data
    torch.testing.assert_close(kernel(data, x, y), padded[y : y + 8, x : x + 16], rtol=0, atol=0)
    with pytest.raises(errors.ArgumentError, match=r"'A' cannot be .*stride of 172 bytes is not"):
        kernel(torch.randn(33, 43, device=device), x, y)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("corner", CORNERS)
def test_emulated_tensor_map(arch, corner):
    check_tensor_map(tensor_map_kernel(arch), "cpu", corner)


@pytest.mark.requires_cuda
@tilelang.testing.requires_cuda_compute_version_ge(9)
@pytest.mark.parametrize("corner", CORNERS)
def test_gpu_tensor_map(corner):
    check_tensor_map(tensor_map_kernel("auto"), "cuda", corner)


@pytest.mark.requires_cuda
def test_gpu_profiler():
    kernel = axpy(out_idx=2)
    profiler = kernel.get_profiler().with_symbols({"n": 1 << 20, "a": 3})
    profiler.assert_allclose(lambda x, y, a: a * x + y, atol=1e-5, rtol=1e-5)
    profiler.assert_consistent()
    with pytest.raises(AssertionError, match=r"output 0: .* elements differ"):
        profiler.assert_allclose(lambda x, y, a: a * x + y + 1)
    milliseconds = profiler.do_bench(warmup=2, rep=5)
    low, high = profiler.do_bench(warmup=2, rep=5, quantiles=[0.1, 0.9])
    assert 0 < low <= high and 0.001 < milliseconds < 5


def test_numpy_arrays_are_told_apart_from_torch_tensors():
    from tilelang.runtime.outputs import to_user

    array = np.arange(6, dtype=np.float32)
    import tvm_ffi

    back = to_user(tvm_ffi.from_dlpack(array), [3, array])
    assert isinstance(back, np.ndarray) and np.array_equal(back, array)
