"""Programs that say "cuda" on a machine without a GPU."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import emulator
from tilelang.emulator import as_cuda, cuda_devices, gpus
from tilelang.emulator.timed import timed_gpus
from tilelang.errors import UnsupportedError, UserError

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


@tilelang.jit
def scale(X, factor: T.float32):
    N = T.const("N")
    X: T.Tensor[[N], T.float32]
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 128), threads=128) as block:
        for i in T.Parallel(128):
            Y[block * 128 + i] = X[block * 128 + i] * factor
    return Y


@pytest.fixture(autouse=True)
def _cuda():
    with as_cuda("sm_90a"):
        yield


def test_places():
    x = torch.randn(5)
    y = x.cuda()
    assert x.device.type == "cpu" and not x.is_cuda and x.get_device() == -1
    assert y.device == torch.device("cuda", 0) and y.is_cuda and not y.is_cpu
    assert y.get_device() == 0 and y.cuda() is y and y.to("cuda") is y and x.cpu() is x
    for other in (
        y + 1, y[1:], y.half(), torch.empty_like(y), y.new_zeros(3), torch.stack([y, y]),
        torch.ones(2, device="cuda"), torch.as_tensor(x, device="cuda:0"), x.to(y), x.to(0),
        torch.zeros(2, device=y.device), y.to(torch.float16), torch.tensor([1], device="cuda"),
        y.split(2)[0], x.to(device="cuda", dtype=torch.float64), y.clone(),
    ):  # fmt: skip
        assert other.is_cuda, other
    for other in (y.cpu(), y.to("cpu"), x + 1, torch.empty_like(y, device="cpu"), y.to(x)):
        assert not other.is_cuda, other
    assert y.cpu().numpy().tolist() == x.tolist()


def test_integers_name_a_device():
    assert torch.empty(2, device=0).is_cuda and torch.randn(3).to(device=0).is_cuda
    assert torch.ones(2).cuda(0).is_cuda and torch.zeros_like(torch.ones(2), device=0).is_cuda


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.empty(2, device="cuda:1"), lambda: torch.empty(2, device=1),
        lambda: torch.ones(2).cuda(1), lambda: torch.ones(2).cuda("cuda:2"),
        lambda: torch.ones(2).to("cuda:1"), lambda: torch.ones(2).to(1),
        lambda: torch.ones(2, device=torch.device("cuda", 3)), lambda: torch.cuda.set_device(1),
        lambda: torch.cuda.set_device("cuda:1"), lambda: torch.nn.Linear(2, 2).to("cuda:1"),
        lambda: torch.device(1),
    ],
)  # fmt: skip
def test_there_is_one_gpu(call):
    with pytest.raises(UserError, match=r"one emulated GPU, cuda:0, and no cuda:[123]"):
        call()


def test_the_default_device():
    with torch.device("cuda"):
        assert torch.ones(2).is_cuda and torch.nn.Linear(2, 2).weight.is_cuda
    assert not torch.ones(2).is_cuda
    torch.set_default_device("cuda")
    assert torch.empty(3).is_cuda and torch.tensor([1.0]).is_cuda and torch.arange(3).is_cuda
    assert not torch.empty(3, device="cpu").is_cuda
    assert torch.get_default_device() == torch.device("cuda", 0)
    torch.set_default_device(None)
    assert not torch.empty(3).is_cuda
    torch.set_default_device(0)
    assert torch.empty(3).is_cuda and torch.device(0) == torch.device("cuda", 0)
    torch.set_default_device(None)


def test_the_number_that_triton_gives_to_the_gpu():
    drivers = pytest.importorskip("triton.runtime").driver
    device = drivers.active.get_current_device()
    assert torch.ones(2, device=device).is_cuda and torch.ones(2).to(device).is_cuda
    assert torch.device(device) == torch.device("cuda", 0)


def test_the_default_device_ends_with_the_block():
    with as_cuda("sm_90a"):
        torch.set_default_device("cuda:0")
        assert scale(torch.ones(200), 3.0).is_cuda
    assert not torch.ones(2).is_cuda


def test_pinned_memory():
    x = torch.ones(4, pin_memory=True)
    assert not x.is_cuda and x.pin_memory().cuda(non_blocking=True).is_cuda
    y = torch.empty_like(x, device="cpu", pin_memory=True)
    y.copy_(x.cuda(), non_blocking=True)
    assert torch.equal(x, y)


def test_states_of_the_generator():
    state = torch.cuda.get_rng_state("cuda:0")
    with torch.random.fork_rng():
        x = torch.randn(4, device="cuda")
    assert torch.equal(torch.randn(4, device="cuda"), x)
    torch.cuda.set_rng_state(state, device="cuda:0")
    torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())
    assert torch.equal(torch.randn(4, device="cuda"), x)
    assert torch.cuda.initial_seed() == torch.initial_seed()


def test_marks_of_profilers_do_nothing():
    torch.cuda.nvtx.range_push("a")
    with torch.cuda.nvtx.range("b"):
        torch.cuda.nvtx.mark("c")
    torch.cuda.nvtx.range_pop()


def test_compiled_functions_run_eagerly():
    @torch.compile(mode="max-autotune")
    def twice(x):
        return scale(x, 2.0)

    x = torch.randn(130, device="cuda")
    assert torch.equal(twice(x), 2 * x) and torch.compile(twice)(x).is_cuda


def test_copies_are_copies():
    x = torch.zeros(4)
    y = x.cuda()
    y += 1
    back = y.cpu()
    y += 1
    half = y.to("cpu", torch.float16)
    assert (x[0], back[0], y[0].item(), half[0]) == (0, 1, 2, 2)
    z = torch.zeros(4, device="cuda")
    z.copy_(back)
    assert z.is_cuda and z[0] == 1


def test_modules_and_gradients():
    layer = torch.nn.Linear(4, 3).to("cuda")
    assert layer.weight.is_cuda and layer.bias.is_cuda
    layer(torch.randn(2, 4, device="cuda")).sum().backward()
    assert layer.weight.grad.is_cuda and layer.weight.grad.shape == (3, 4)
    assert not layer.cpu().weight.is_cuda


def test_random_numbers():
    generator = torch.Generator(device="cuda").manual_seed(3)
    a = torch.randn(3, generator=generator, device="cuda")
    assert torch.equal(a, torch.randn(3, generator=torch.Generator("cuda").manual_seed(3)))
    torch.cuda.manual_seed(1)


def test_kernels():
    x = torch.randn(1000, device="cuda")
    y = scale(x, 3.0)
    assert y.is_cuda and torch.equal(y, 3 * x)
    torch.testing.assert_close(y, x * 3)


def test_events_tell_the_predicted_time():
    x = torch.randn(1000, device="cuda")
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    once, twice = None, None
    for count in (1, 2):
        start.record()
        for _ in range(count):
            scale(x, 3.0)
        end.record(torch.cuda.current_stream())
        torch.cuda.synchronize()
        once, twice = twice, start.elapsed_time(end)
    assert 0 < once < 0.1 and twice == pytest.approx(2 * once)
    assert not cuda_devices._CLOCK.running
    with pytest.raises(UserError, match="enable_timing"):
        torch.cuda.Event().elapsed_time(end)


def test_do_bench():
    x = torch.randn(1000, device="cuda")
    with pytest.warns(emulator.EmulatorWarning, match="H200"):
        assert 0 < tilelang.profiler.do_bench(lambda: scale(x, 3.0)) < 0.1


def test_torch_cuda():
    assert torch.cuda.is_available() and torch.cuda.device_count() == 1
    assert torch.cuda.get_device_capability() == (9, 0)
    assert torch.cuda.get_device_properties(0).multi_processor_count == 132
    assert "H200" in torch.cuda.get_device_name()
    with torch.cuda.stream(torch.cuda.Stream()), torch.cuda.device(0):
        torch.ones(3).cuda(non_blocking=True).record_stream(torch.cuda.current_stream())
    with pytest.raises(UnsupportedError, match="CUDAGraph has no emulated"):
        torch.cuda.CUDAGraph()
    with pytest.raises(UnsupportedError, match="CUDAGraph has no emulated"):
        type("Derived", (torch.cuda.CUDAGraph,), {})()  # a library may define one at import
    assert not torch.cuda.is_current_stream_capturing()
    traced = torch.ones(3, device="cuda").to("meta")
    assert (traced + 1).device.type == "meta"  # as torch traces programs


@pytest.mark.parametrize(("arch", "gpu"), [(gpu.arch, gpu.name) for gpu in gpus.GPUS])
def test_chosen_gpu(arch, gpu):
    device = gpus.find(arch, gpu)
    with as_cuda(arch, gpu=gpu):
        found = torch.cuda.get_device_properties(0)
        assert found.multi_processor_count == device.sms and gpu in found.name
        assert torch.cuda.get_device_capability() == device.capability
        if arch not in timed_gpus():
            return
        assert set(timed_gpus()[arch]) == {g.name for g in gpus.GPUS if g.arch == arch}
        text = f".version 8.8\n.target {arch}\n.address_size 64\n.visible .entry f() {{ ret; }}\n"
        timing = emulator.Device(arch).load_ptx(text)["f"].launch(1, 32, [], timing=True).timing
    assert (timing.gpu, timing.sms) == (gpu, device.sms)


def test_gpu_of_another_architecture():
    known = "'H200' is no GPU of sm_100a; choose from 'B200', 'GB200'"
    with pytest.raises(UserError, match=known), as_cuda("sm_100a", gpu="H200"):
        pass


def test_it_ends():
    available = torch.cuda.is_available
    with as_cuda("sm_80"):
        assert torch.cuda.get_device_capability() == (8, 0)
    assert torch.cuda.is_available is available
    with pytest.raises(UserError, match="no architecture 'sm_70'"), as_cuda("sm_70"):
        pass


@tilelang.jit
def copies(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 128), threads=128) as block:
            T.copy(A[block * 128], B[block * 128 : block * 128 + 128])

    return main


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_kernels_are_kept_by_architecture(arch):
    """One that the function has compiled for another architecture is not used again."""
    before = copies(256)
    with as_cuda(arch):
        kernel = copies(256)
        assert str(kernel.target) == arch and copies(256) is kernel
        x = torch.randn(300, device="cuda")
        assert torch.equal(scale(x, 2.0), x * 2)
        assert str(scale.compile(X=x, factor=2.0).target) == arch
    assert str(before.target) == "sm_90a" and copies(256) is before
