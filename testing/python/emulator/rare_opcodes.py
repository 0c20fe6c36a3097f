"""Instructions that few targets have, and what the emulator has not; judged with ptxas.

Registers: ``%r`` has 32 bits, ``%d`` 64, ``%h`` 16, ``%x`` 128, ``%c`` 8; ``%f`` is f32, ``%p``
a predicate.
"""

COORDS = "{%r1, %r2, %r3, %r4}"
_TMA = "cp.async.bulk.tensor"
_DONE = "mbarrier::complete_tx::bytes"
_SCALED = "[%r1], %d1, %d2, %r3, [%r4], [%r5], %p1"
_FOUR = "{%f0, %f1, %f2, %f3}"
_QUADS = "{%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f4, %f5, %f6, %f7}"

#: Each is accepted by ptxas for some of the targets; the emulator accepts and refuses likewise.
SUPPORTED = [
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 64;",
    "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r2];",
    "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r1};",
    "tcgen05.cp.cta_group::1.128x128b [%r1], %d1;",
    "tcgen05.shift.cta_group::1.down [%r1];",
    *(
        f"tcgen05.mma.cta_group::1.kind::{kind} [%r1], %d1, %d2, %r3, %p1;"
        for kind in ("f16", "tf32", "f8f6f4", "i8")
    ),
    *(
        f"tcgen05.mma.cta_group::1.kind::{kind}.block_scale{vector} {_SCALED};"
        for kind, vectors in {
            "mxf8f6f4": ("", ".block32", ".scale_vec::1X"),
            "mxf4": ("", ".block32", ".scale_vec::2X"),
            "mxf4nvf4": (".block16", ".block32", ".scale_vec::2X", ".scale_vec::4X"),
        }.items()
        for vector in vectors
    ),
    *(
        f"tcgen05.ld.red.sync.aligned.32x32b.x2.{operation} {{%r1, %r2}}, %r3, [%r4];"
        for operation in ("min.u32", "max.s32")
    ),
    "tcgen05.ld.red.sync.aligned.32x32b.x2.max.abs.NaN.f32 {%f1, %f2}, %f3, [%r4];",
    *(
        f"tcgen05.mma.sp.cta_group::1.kind::{kind} [%r1], %d1, %d2, [%r6], {operands};"
        for kind, operands in {
            "f16": "%r3, %p1",
            "i8": "%r3, %p1",
            "mxf4nvf4.block_scale.block16": "%r3, [%r4], [%r5], %p1",
            "mxf4.block_scale.block32": "%r3, [%r4], [%r5], %p1",
        }.items()
    ),
    *(
        f"mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.{kind}.{kind}.f32 {_QUADS};"
        for kind in ("e4m3", "e5m2", "e2m1", "e2m3", "e3m2")
    ),
    "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0"
    f" {_QUADS}, %r8, {{0, 0}}, %r9, {{0, 0}};",
    *(
        f"mma.sync.aligned.m16n8k64.row.col.kind::{kind}.f32.e2m1.e2m1.f32.{scale}"
        f" {_QUADS}, %r8, {{0, 0}}, %r9, {{0, 0}};"
        for kind, scale in (
            ("mxf4.block_scale", "ue8m0"),
            ("mxf4nvf4.block_scale.scale_vec::2X", "ue8m0"),
            ("mxf4nvf4.block_scale.scale_vec::4X", "ue4m3"),
        )
    ),
    f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {_FOUR}, %d1, %d2, 1, 1, 1, 0, 0;",
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128"
    " [%r1], [%r2];",
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
    ".multicast::cluster::all.b128 [%r1], [%r2];",
    "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %x1;",
    "st.bulk.weak.shared::cta [%r1], %d1, 0;",
    "ld.global.v8.b32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%d1];",
    "st.global.v4.b64 [%d1], {%d2, %d3, %d4, %d5};",
    "fma.rn.f32x2 %d1, %d2, %d3, %d4;",
    "max.f32 %f1, %f2, %f3, %f4;",
    "add.f32.bf16 %f1, %h1, %f2;",
    f"{_TMA}.2d.shared::cta.global.tile::gather4.{_DONE} [%r9],"
    " [%d1, {%r1, %r2, %r3, %r4, %r5}], [%r8];",
    f"{_TMA}.2d.global.shared::cta.tile::scatter4.bulk_group"
    " [%d1, {%r1, %r2, %r3, %r4, %r5}], [%r8];",
    f"{_TMA}.4d.shared::cta.global.im2col.{_DONE} [%r9], [%d1, {COORDS}], [%r8], {{%h1, %h2}};",
    f"{_TMA}.4d.shared::cta.global.im2col::w.{_DONE} [%r9], [%d1, {COORDS}], [%r8], {{%h1, %h2}};",
    f"{_TMA}.2d.cta_group::2.shared::cluster.global.{_DONE} [%r9], [%d1, {{%r1, %r2}}], [%r8];",
    "cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4 [%d1, {%r1, %r2, %r3, %r4, %r5}];",
    "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%d1], [%r1], 16, %h1;",
    "add.bf16 %h1, %h2, %h3;",
    "sub.rn.f32.f16 %f1, %h1, %f2;",
    "min.xorsign.abs.f32 %f1, %f2, %f3;",
    "tensormap.replace.tile.elemtype.global.b1024.b32 [%d1], 14;",
    "tensormap.replace.tile.swizzle_atomicity.global.b1024.b32 [%d1], 1;",
    "tensormap.replace.tile.swizzle_mode.global.b1024.b32 [%d1], 3;",
    "setmaxnreg.inc.sync.aligned.u32 64;",
    "redux.sync.max.f32 %f1, %f2, -1;",
    "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%r1], {%r2};",
    "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r2, %r3}, [%r1];",
    "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8x16.b4x16_p64 {%r2, %r3}, [%r1];",
    "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b6x16_p32 {%r2}, [%r1];",
    "cvt.rn.satfinite.e2m1x2.f32 %c1, %f1, %f2;",
    "cvt.rn.f16x2.e2m1x2 %r1, %c1;",
    "cvt.rn.satfinite.e2m3x2.f32 %h1, %f1, %f2;",
    "cvt.rn.f16x2.e3m2x2 %r1, %h1;",
    "cvt.rp.satfinite.ue8m0x2.f32 %h1, %f1, %f2;",
    "cvt.rn.bf16x2.ue8m0x2 %r1, %h1;",
    "cvt.rs.satfinite.e4m3x4.f32 %r1, {%f1, %f2, %f3, %f4}, %r2;",
    "cvt.rs.f16x2.f32 %r1, %f1, %f2, %r2;",
    "cvt.rs.relu.bf16x2.f32 %r1, %f1, %f2, %r2;",
    "cvt.rs.satfinite.e2m1x4.f32 %h1, {%f1, %f2, %f3, %f4}, %r2;",
    "cvt.rs.satfinite.e3m2x4.f32 %r1, {%f1, %f2, %f3, %f4}, %r2;",
    "cvt.rz.ue8m0x2.bf16x2 %h1, %r1;",
    "st.async.mmio.release.sys.global.b32 [%d1], %r1;",
    "red.async.mmio.release.sys.global.add.u32 [%d1], %r1;",
    "griddepcontrol.wait;",
    "griddepcontrol.launch_dependents;",
    "stacksave.u64 %d1;",
    "stackrestore.u64 %d1;",
    "alloca.u64 %d1, %d2;",
    "alloca.u64 %d1, %d2, 64;",
    "elect.sync %r1|%p1, -1;",
    "mapa.shared::cluster.u32 %r1, %r2, %r3;",
    "barrier.cluster.arrive.aligned;",
]

#: What the emulator refuses though ptxas takes it for some target: the target, part of the reason.
REFUSED = [
    ("multimem.ld_reduce.relaxed.gpu.global.add.f32 %f1, [%d1];", "sm_100a", "multimem"),
    ("multimem.st.relaxed.gpu.global.f32 [%d1], %f1;", "sm_100a", "multimem"),
    ("multimem.red.relaxed.gpu.global.add.f32 [%d1], %f1;", "sm_100a", "multimem"),
    ("multimem.ld_reduce.relaxed.gpu.global.add.acc::f16.v4.e4m3x4 {%r1, %r2, %r3, %r4}, [%d1];",
     "sm_100a", "multimem"),
    (f"{_TMA}.4d.shared::cta.global.im2col::w::128.{_DONE} [%r9], [%d1, {COORDS}], [%r8],"
     " {%h1, %h2};", "sm_100a", "im2col::w::128"),
    ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%d1, {%f5, %f6}];", "sm_100a", "tex"),
    ("vadd.s32.s32.s32 %r1, %r2.b0, %r3.b1;", "sm_100a", "vadd"),
]  # fmt: skip
