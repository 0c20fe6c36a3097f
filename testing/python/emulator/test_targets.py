"""A target lacks the instructions that ptxas refuses for it; devices run what is for them."""

import functools
import re
import subprocess

import numpy as np
import pytest

from tilelang.emulator import Device, EmulatorError
from tilelang.runtime.toolchain import ToolNotFoundError, find_ptxas

TARGETS = (
    "sm_80", "sm_90", "sm_90a", "sm_100", "sm_100f", "sm_100a", "sm_103", "sm_103f", "sm_103a",
    "sm_120", "sm_120f", "sm_120a", "sm_121a",
)  # fmt: skip
DECLARATIONS = (
    ".reg .b32 %r<9>; .reg .b64 %d<9>; .reg .b16 %h<9>; .reg .f32 %f<9>; .reg .f64 %e<9>; "
    ".reg .b128 %q<9>; .reg .pred %p<9>; .reg .b8 %b<3>; .shared .align 1024 .b8 sm[256];"
)
ABBREVIATIONS = {
    "FRAGMENTS": "{%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4}",
    "NARROW": "mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32",
    "SCALED": "mma.sync.aligned.kind::mxf4.block_scale.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0",
    "TMXF4": "tcgen05.mma.cta_group::1.kind::mxf4.block_scale",
    "BYTES": "mbarrier::complete_tx::bytes",
    "ROWS": "{%r1,%r2,%r3,%r4,%r1}",
    "XYN": "{%r1,%r2,%r3}",
    "GENERIC": "tensormap::generic",
}
INSTRUCTIONS = """
ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [sm];
ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r1,%r2}, [sm];
ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b6x16_p32 {%r1}, [sm];
movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;
stmatrix.sync.aligned.m8n8.x1.shared.b16 [sm], {%r1};
stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [sm], {%r1};
mbarrier.init.shared.b64 [sm], 1;
mbarrier.arrive.shared.b64 %d1, [sm];
mbarrier.arrive.shared.b64 %d1, [sm], 2;
mbarrier.arrive.noComplete.shared.b64 %d1, [sm], 2;
mbarrier.arrive.release.cta.shared::cta.b64 %d1, [sm];
mbarrier.arrive.release.cluster.shared::cta.b64 %d1, [sm];
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [sm];
mbarrier.arrive.relaxed.cta.shared::cta.b64 %d1, [sm];
mbarrier.arrive.expect_tx.shared.b64 %d1, [sm], 16;
mbarrier.arrive_drop.shared.b64 %d1, [sm];
mbarrier.arrive_drop.shared.b64 %d1, [sm], 2;
mbarrier.arrive_drop.expect_tx.shared.b64 %d1, [sm], 16;
mbarrier.expect_tx.relaxed.cta.shared.b64 [sm], 16;
mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [sm], 16;
mbarrier.test_wait.shared.b64 %p1, [sm], %d1;
mbarrier.test_wait.parity.shared.b64 %p1, [sm], %r1;
mbarrier.test_wait.acquire.cluster.shared.b64 %p1, [sm], %d1;
mbarrier.try_wait.shared.b64 %p1, [sm], %d1;
mbarrier.try_wait.parity.shared.b64 %p1, [sm], %r1;
mbarrier.pending_count.b64 %r1, %d1;
elect.sync %r1|%p1, -1;
cp.async.ca.shared.global [sm], [%d1], 4;
cp.async.mbarrier.arrive.noinc.shared.b64 [sm];
cp.async.wait_all;
cp.async.bulk.shared::cluster.global.BYTES [sm], [%d1], 16, [sm];
cp.async.bulk.shared::cta.global.BYTES [sm], [%d1], 16, [sm];
cp.async.bulk.global.shared::cta.bulk_group [%d1], [sm], 16;
cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%d1], [sm], 16, %h1;
cp.async.bulk.shared::cluster.global.BYTES.multicast::cluster [sm], [%d1], 16, [sm], %h1;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
cp.async.bulk.prefetch.L2.global [%d1], 16;
cp.async.bulk.tensor.1d.shared::cluster.global.tile.BYTES [sm], [%d1, {%r1}], [sm];
cp.async.bulk.tensor.1d.shared::cta.global.tile.BYTES [sm], [%d1, {%r1}], [sm];
cp.async.bulk.tensor.1d.shared::cluster.global.tile.BYTES.cta_group::1 [sm], [%d1, {%r1}], [sm];
cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.BYTES [sm], [%d1, ROWS], [sm];
cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.BYTES [sm], [%d1, ROWS], [sm];
cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%d1, ROWS], [sm];
cp.async.bulk.tensor.3d.shared::cta.global.im2col::w.BYTES [sm], [%d1, XYN], [sm], {%h1, %h2};
cp.async.bulk.tensor.3d.shared::cta.global.im2col::w::128.BYTES [sm], [%d1, XYN], [sm], {%h1, %h2};
cp.async.bulk.tensor.3d.shared::cluster.global.im2col.BYTES [sm], [%d1, {%r1,%r2,%r3}], [sm], {%h1};
cp.async.bulk.prefetch.tensor.1d.L2.global.tile [%d1, {%r1}];
cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d1], [sm], 16;
cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%d1, {%r1}], [sm];
setmaxnreg.inc.sync.aligned.u32 64;
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
barrier.sync 0;
griddepcontrol.wait;
mapa.shared::cluster.u32 %r1, %r2, 0;
getctarank.shared::cluster.u32 %r1, %r2;
isspacep.shared::cluster %p1, %d1;
isspacep.shared::cta %p1, %d1;
isspacep.shared %p1, %d1;
mov.u32 %r1, %clusterid.x;
mov.u32 %r1, %cluster_ctarank;
mov.u32 %r1, %nclusterid.x;
fence.sc.gpu;
fence.acq_rel.cluster;
fence.acquire.gpu;
fence.acquire.sync_restrict::shared::cluster.cluster;
fence.proxy.alias;
fence.proxy.async;
fence.proxy.async.shared::cta;
fence.mbarrier_init.release.cluster;
fence.proxy.GENERIC.release.gpu;
st.async.shared::cluster.BYTES.u32 [%r1], %r2, [%r3];
red.async.relaxed.cluster.shared::cluster.BYTES.add.u32 [%r1], %r2, [%r3];
redux.sync.add.s32 %r1, %r2, -1;
redux.sync.min.f32 %f1, %f2, -1;
redux.sync.min.abs.NaN.f32 %f1, %f2, -1;
clusterlaunchcontrol.try_cancel.async.shared::cta.BYTES.b128 [sm], [sm];
clusterlaunchcontrol.try_cancel.async.shared::cta.BYTES.multicast::cluster::all.b128 [sm], [sm];
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q1;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [sm], 32;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r2];
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r1};
tcgen05.wait::ld.sync.aligned;
tcgen05.fence::after_thread_sync;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r1];
tcgen05.cp.cta_group::1.128x256b [%r1], %d1;
tcgen05.shift.cta_group::1.down [%r1];
tcgen05.mma.cta_group::1.kind::f16 [%r1], %d1, %d2, %r2, %p1;
tcgen05.mma.cta_group::1.kind::i8 [%r1], %d1, %d2, %r2, %p1;
tcgen05.mma.ws.cta_group::1.kind::f16 [%r1], %d1, %d2, %r2, %p1;
ld.global.v8.f32 {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, [%d1];
ld.global.v4.b64 {%d1,%d2,%d3,%d4}, [%d1];
ld.global.v4.f32 {%f1,%f2,%f3,%f4}, [%d1];
ld.global.v2.b64 {%d2,%d3}, [%d1];
ld.global.v4.f64 {%e1,%e2,%e3,%e4}, [%d1];
st.global.v8.b32 [%d1], {%r1,%r2,%r3,%r4,%r1,%r2,%r3,%r4};
st.global.v4.u64 [%d1], {%d1,%d2,%d3,%d4};
ld.global.b128 %q1, [%d1];
ld.shared::cluster.u32 %r1, [%r2];
ld.shared::cta.u32 %r1, [sm];
ld.acquire.cluster.global.u32 %r1, [%d1];
ld.global.L1::evict_last.u32 %r1, [%d1];
ld.global.L2::128B.u32 %r1, [%d1];
ld.global.L2::cache_hint.u32 %r1, [%d1], %d2;
ld.global.nc.L1::no_allocate.L2::evict_first.v8.b32 {%r1,%r2,%r3,%r4,%r1,%r2,%r3,%r4}, [%d1];
createpolicy.fractional.L2::evict_last.b64 %d1, 1.0;
applypriority.global.L2::evict_normal [%d1], 128;
discard.global.L2 [%d1], 128;
prefetch.tensormap [%d1];
tensormap.replace.tile.global_address.global.b1024.b64 [%d1], %d2;
tensormap.cp_fenceproxy.global.shared::cta.GENERIC.release.gpu.sync.aligned [%d1], [sm], 128;
add.rn.f32x2 %d1, %d2, %d3;
mul.rn.f32x2 %d1, %d2, %d3;
fma.rn.f32x2 %d1, %d2, %d3, %d4;
sub.rn.f32x2 %d1, %d2, %d3;
add.rn.f32.bf16 %f1, %h1, %f2;
sub.f32.f16 %f1, %h1, %f2;
fma.rn.f32.f16 %f1, %h1, %h2, %f2;
add.rn.f16 %h1, %h2, %h3;
add.rn.bf16 %h1, %h2, %h3;
sub.rn.bf16x2 %r1, %r2, %r3;
mul.rn.bf16 %h1, %h2, %h3;
fma.rn.bf16 %h1, %h2, %h3, %h1;
fma.rn.relu.f16 %h1, %h2, %h3, %h1;
fma.rn.oob.f16 %h1, %h2, %h3, %h1;
min.f32 %f1, %f2, %f3, %f4;
max.NaN.f32 %f1, %f2, %f3;
min.xorsign.abs.f32 %f1, %f2, %f3;
min.f16 %h1, %h2, %h3;
max.bf16x2 %r1, %r2, %r3;
min.NaN.xorsign.abs.f16 %h1, %h2, %h3;
min.s16x2 %r1, %r2, %r3;
min.relu.s32 %r1, %r2, %r3;
add.u16x2 %r1, %r2, %r3;
neg.bf16 %h1, %h2;
abs.bf16 %h1, %h2;
neg.f16 %h1, %h2;
setp.lt.f16 %p1, %h1, %h2;
setp.lt.bf16 %p1, %h1, %h2;
set.lt.u32.bf16 %r1, %h1, %h2;
ex2.approx.ftz.bf16 %h1, %h2;
ex2.approx.f16 %h1, %h2;
tanh.approx.f32 %f1, %f2;
tanh.approx.bf16 %h1, %h2;
cvt.rn.bf16.f32 %h1, %f1;
cvt.rn.bf16x2.f32 %r1, %f1, %f2;
cvt.rn.relu.f16x2.f32 %r1, %f1, %f2;
cvt.rn.bf16.s32 %h1, %r1;
cvt.f32.bf16 %f1, %h1;
cvt.rna.tf32.f32 %r1, %f1;
cvt.rn.tf32.f32 %r1, %f1;
cvt.rn.satfinite.tf32.f32 %r1, %f1;
cvt.rna.satfinite.tf32.f32 %r1, %f1;
cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;
cvt.rn.f16x2.e4m3x2 %r1, %h1;
cvt.rn.satfinite.e2m3x2.f32 %h1, %f1, %f2;
cvt.rn.f16x2.e2m3x2 %r1, %h1;
cvt.rp.satfinite.ue8m0x2.f32 %h1, %f1, %f2;
cvt.rn.bf16x2.ue8m0x2 %r1, %h1;
cvt.rs.f16x2.f32 %r1, %f1, %f2, %r2;
cvt.rs.satfinite.e4m3x4.f32 %r1, {%f1,%f2,%f3,%f4}, %r2;
cvt.rs.satfinite.e2m1x4.f32 %h1, {%f1,%f2,%f3,%f4}, %r2;
cvt.rn.bf16.f16 %h1, %h2;
cvt.rzi.s32.bf16 %r1, %h1;
atom.global.add.noftz.f16 %h1, [%d1], %h2;
atom.global.add.noftz.bf16 %h1, [%d1], %h2;
red.global.add.noftz.bf16x2 [%d1], %r1;
atom.global.v4.f32.add {%f1,%f2,%f3,%f4}, [%d1], {%f1,%f2,%f3,%f4};
red.global.add.v4.f32 [%d1], {%f1,%f2,%f3,%f4};
red.global.add.v2.f32 [%d1], {%f1,%f2};
atom.global.cas.b128 %q1, [%d1], %q2, %q3;
atom.global.exch.b128 %q1, [%d1], %q2;
atom.acq_rel.cluster.global.add.u32 %r1, [%d1], %r2;
atom.shared::cluster.add.u32 %r1, [%r2], %r3;
atom.global.cas.b16 %h1, [%d1], %h2, %h3;
cvt.rn.satfinite.e2m1x2.f32 %b1, %f1, %f2;
mbarrier.arrive.release.cta.shared::cta.b64 %d1, [sm], 2;
mbarrier.test_wait.relaxed.cta.shared.b64 %p1, [sm], %d1;
max.f32 %f1, %f2, %f3, %f4;
cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4 [%d1, ROWS];
cp.async.bulk.prefetch.tensor.3d.L2.global.im2col::w [%d1, {%r1,%r2,%r3}], {%h1, %h2};
cvt.rni.bf16.bf16 %h1, %h2;
cvt.rn.satfinite.bf16.f32 %h1, %f1;
cvt.rn.relu.f16.f32 %h1, %f1;
cvt.rz.f16x2.f32 %r1, %f1, %f2;
fma.rn.relu.bf16x2 %r1, %r2, %r3, %r4;
min.f16x2 %r1, %r2, %r3;
neg.bf16x2 %r1, %r2;
ex2.approx.ftz.bf16x2 %r1, %r2;
tanh.approx.bf16x2 %r1, %r2;
setp.lt.bf16x2 %p1|%p2, %r1, %r2;
fence.proxy.async.global;
cvt.rn.satfinite.e5m2x2.f32 %h1, %f1, %f2;
cvt.rn.f16x2.e2m1x2 %r1, %b1;
tcgen05.mma.ws.cta_group::1.kind::i8 [%r1], %d1, %d2, %r2, %p1;
TMXF4 [%r1], %d1, %d2, %r2, [%r3], [%r4], %p1;
TMXF4.scale_vec::2X [%r1], %d1, %d2, %r2, [%r3], [%r4], %p1;
tcgen05.shift.cta_group::1.down [%r1];
NARROW.e4m3.e5m2.f32 FRAGMENTS;
NARROW.e2m1.e5m2.f32 FRAGMENTS;
SCALED FRAGMENTS, %r7, {0,0}, %r8, {0,0};
mov.u32 %r1, %cluster_ctaid.x;
add.u32 %r1, %r2, %r3;
"""
for short, text in ABBREVIATIONS.items():
    INSTRUCTIONS = INSTRUCTIONS.replace(short, text)
INSTRUCTIONS = INSTRUCTIONS.strip().splitlines()


def header(target, version="9.0"):
    return f".version {version}\n.target {target}\n.address_size 64\n"


def entry(index, instruction):
    """Three lines, of which the second is the instruction."""
    return f".visible .entry k{index}() {{ {DECLARATIONS}\n{instruction}\nret; }}\n"


@functools.cache
def refused_by_ptxas(target):
    """Returns the indices of the instructions that ptxas refuses for a target."""
    try:
        ptxas = find_ptxas()
    except ToolNotFoundError as error:
        pytest.skip(str(error))
    text = header(target) + "".join(entry(i, s) for i, s in enumerate(INSTRUCTIONS))
    done = subprocess.run(
        [ptxas, f"-arch={target}", "-o", "/dev/null", "-"], input=text, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    lines = {int(line) for line in re.findall(r"line (\d+); error", done.stderr)}
    assert (done.returncode != 0) == bool(lines), done.stderr
    refused = {(line - 5) // 3 for line in lines}
    assert lines == {5 + 3 * index for index in refused}, done.stderr
    return refused


def refused_here(target, index):
    """Tells whether the target lacks an instruction, which is looked at before anything else."""
    device = Device(target if target == "sm_80" else target.rstrip("af") + "a")
    try:
        device.load_ptx(header(target) + entry(index, INSTRUCTIONS[index]))
    except EmulatorError as error:
        if error.kind == "unsupported":
            return False
        assert error.kind == "target"
        assert error.ptx_line == 5
        assert f"the module has {target}" in str(error)
        return True
    return False


@pytest.mark.parametrize("index", range(len(INSTRUCTIONS)), ids=INSTRUCTIONS.__getitem__)
def test_targets_lack_what_ptxas_refuses(index):
    ours = {target for target in TARGETS if refused_here(target, index)}
    theirs = {target for target in TARGETS if index in refused_by_ptxas(target)}
    assert ours == theirs


RUNS = {
    "sm_80": {"sm_75", "sm_80"},
    "sm_90a": {"sm_75", "sm_80", "sm_89", "sm_90", "sm_90a"},
    "sm_100a": {"sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_100f", "sm_100a"},
    "sm_103a": {"sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_100f", "sm_103a"},
    "sm_120a": {"sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120", "sm_120a"},
    "sm_121a": {"sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120"},
}
STORE = """.visible .entry k(.param .u64 OUT) {
 .reg .b64 %d; .reg .b32 %r; ld.param.u64 %d, [OUT]; mov.u32 %r, 7; st.global.u32 [%d], %r; ret;
}
"""


@pytest.mark.parametrize("arch", RUNS)
@pytest.mark.parametrize(
    "target",
    ["sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100f", "sm_100a", "sm_103a",
     "sm_110f", "sm_120", "sm_120a"],
)  # fmt: skip
def test_devices_run_modules_of_their_own_and_of_earlier_targets(arch, target):
    """Compatibility as the CUDA programming guide has it: suffixes bind to one device or family."""
    device, out = Device(arch), np.zeros(1, np.uint32)
    if target in RUNS[arch]:
        device.load_ptx(header(target) + STORE)["k"].launch(1, 1, [out])
        assert out[0] == 7
        return
    with pytest.raises(EmulatorError, match=f"module for {target} does not run on .* {arch}") as e:
        device.load_ptx(header(target) + STORE)
    assert (e.value.kind, e.value.ptx_line) == ("target", 2)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (header("sm_100a", "99.9") + STORE, "unsupported", "version 99.9"),
        (header("sm_100x") + STORE, "target", "no .target sm_100x"),
        (".version 9.0\n.address_size 64\n" + STORE, "syntax", "target"),
        (".target sm_90\n.address_size 64\n" + STORE, "syntax", "version"),
    ],
)
def test_headers_that_ptx_does_not_have(text, kind, message):
    with pytest.raises(EmulatorError, match=message) as caught:
        Device().load_ptx(text)
    assert caught.value.kind == kind


def test_devices_have_their_own_number_of_sms():
    counts = {"sm_80": 108, "sm_90a": 132, "sm_100a": 148, "sm_120a": 170, "sm_121a": 48}
    for arch, count in counts.items():
        text = f"""{header(arch)}
.visible .entry k(.param .u64 o) {{
  .reg .b64 %a; .reg .b32 %n, %i, %b;
  ld.param.u64 %a, [o];
  mov.u32 %n, %nsmid;
  mov.u32 %i, %smid;
  mov.u32 %b, %ctaid.x;
  mad.wide.u32 %a, %b, 8, %a;
  st.global.v2.b32 [%a], {{%n, %i}};
  ret;
}}"""
        out = np.zeros((200, 2), np.uint32)
        Device(arch).load_ptx(text)["k"].launch(200, 1, [out])
        assert (out[:, 0] == count).all()
        assert out[:, 1].max() == count - 1 and out[:, 1].min() == 0
