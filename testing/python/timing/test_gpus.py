"""GPUs of an architecture, sampled runs of kernels that take over clusters, errors of classes."""

import numpy as np
import pytest
from timing import timings

from tilelang.emulator import Device, TimingOptions
from tilelang.emulator.timed import timed_gpus
from tilelang.emulator.timing.accuracy import accuracy_of, accuracy_text, class_of
from tilelang.errors import UserError

_HEAD = ".version 8.7\n.target {arch}\n.address_size 64\n"
_COPY = """.visible .entry k(.param .u64 X, .param .u64 Y) {
 .reg .b64 %a, %b, %i; .reg .b32 %t, %c; .reg .f32 %f<4>;
 ld.param.u64 %a, [X]; ld.param.u64 %b, [Y]; mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x;
 mad.lo.u32 %t, %c, 256, %t; mul.wide.u32 %i, %t, 16;
 add.u64 %a, %a, %i; add.u64 %b, %b, %i;
 ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%a]; st.global.v4.f32 [%b], {%f0, %f1, %f2, %f3};
 ret;
}"""
# Each CTA works for its own tile, and for those that its SM takes over: 200 dependent FMAs a tile.
_TAKES_OVER = """.visible .entry k(.param .u64 OUT) {
 .shared .align 16 .b8 answer[16]; .shared .align 8 .b64 bar;
 .reg .b32 %r<9>; .reg .b64 %d; .reg .pred %p<4>; .reg .b128 %q; .reg .f32 %f;
 ld.param.u64 %d, [OUT]; mov.u32 %r0, %tid.x; mov.u32 %r1, answer; mov.u32 %r2, bar;
 mov.u32 %r3, 0; mov.f32 %f, 0f3F800000; setp.ne.u32 %p0, %r0, 0;
 @!%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
 bar.sync 0;
TILE:
 @%p0 bra WORK;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 16;
 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r1], [%r2];
WORK: mov.u32 %r4, 0;
LOOP: fma.rn.f32 %f, %f, %f, %f; add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 200; @%p1 bra LOOP;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], %r3; @!%p2 bra WAIT;
 xor.b32 %r3, %r3, 1;
 ld.shared.b128 %q, [%r1];
 clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q;
 fence.proxy.async.shared::cta;
 bar.sync 0;
 @%p3 bra TILE;
 st.global.f32 [%d], %f;
 ret;
}"""


def _timed(text, arch, ctas, args, threads=256, **how):
    options = TimingOptions(record=False, **how)
    kernel = Device(arch).load_ptx(_HEAD.format(arch=arch) + text)["k"]
    return kernel.launch(ctas, threads, args, sanitize=False, timing=options).timing


def test_gpus_of_an_architecture():
    gpus = timed_gpus()
    assert gpus["sm_100a"] == ["B200", "GB200"] and gpus["sm_90a"][0] == "H200"
    assert {"sm_80", "sm_103a", "sm_120a"} < set(gpus)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a", "sm_103a", "sm_120a"])
def test_bandwidth_of_a_copy_is_below_that_of_its_memory(arch):
    # Data sheets, TB/s: of all memories of the architecture the slowest and the fastest.
    most = {"sm_80": 2.04, "sm_90a": 4.8, "sm_100a": 8.0, "sm_103a": 8.0, "sm_120a": 1.79}[arch]
    for gpu in timed_gpus()[arch]:
        x = np.zeros(1 << 24, np.float32)
        timing = _timed(_COPY, arch, x.size // 1024, [x, np.zeros_like(x)], sampled=True, gpu=gpu)
        rate = 2 * x.nbytes / timing.grid_us / 1e6
        assert timing.gpu == gpu
        assert 0.6 * most < rate < most


def test_more_sms_take_less_time():
    out = np.zeros(4, np.float32)
    times = {
        gpu: _timed(_TAKES_OVER, "sm_100a", 148 * 38, [out], gpu=gpu, sampled=True).grid_cycles
        for gpu in ("B200", "GB200")
    }
    assert times["GB200"] < times["B200"]


def test_an_unknown_gpu_is_an_error():
    with pytest.raises(UserError, match="'H100' is no GPU of sm_100a; choose from 'B200', 'GB200'"):
        _timed(_COPY, "sm_100a", 1, [np.zeros(4096, np.float32)] * 2, gpu="H100")


@pytest.mark.parametrize("tiles", [148 * 8 * 4, 148 * 8 * 3 + 5])
def test_a_sample_of_clusters_that_take_over_others(tiles):
    """All of them on all SMs, and what one SM does in a sample, end within 2 %."""
    out = np.zeros(4, np.float32)
    every, some = (
        _timed(_TAKES_OVER, "sm_100a", tiles, [out], sampled=sampled) for sampled in (False, True)
    )
    assert some.timed_ctas < every.timed_ctas / 50
    assert some.grid_cycles == pytest.approx(every.grid_cycles, rel=0.02)


def test_fresh_is_without_the_limit_of_power():
    timing = timings.make(power_factor=0.8, launch_us=1.0)
    sustained, fresh = timing.grid_us - 1.0, timing.fresh_us - 1.0
    assert fresh == pytest.approx(0.8 * sustained)


def test_errors_are_those_of_the_class():
    timing = timings.make(gpu="H200")
    assert class_of(timing) in ("small", "memory-bound", "GEMM", "attention")
    assert accuracy_of(timing) is not None and "nine of ten within" in accuracy_text(timing)
    assert accuracy_of(timings.make(gpu="A100")) is None
    assert "not measured on the A100" in accuracy_text(timings.make(gpu="A100"))
