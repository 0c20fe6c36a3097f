"""Kernels that set all of tensor memory, run something on it, and return all of it."""

from __future__ import annotations

import numpy as np

from tilelang.emulator import Device

LANES, COLUMNS = 128, 512
HEADER = ".version 9.0\n.target sm_100a\n.address_size 64\n"

# %r0 thread, %r1 warp, %r2 tensor-memory base, %r3 that of the warp's lanes, %r4 the barrier,
# %r5 shared image, %p0 true in thread 0 of the block. IN, OUT: [128][512] words for each CTA. DATA:
# bytes for shared memory, likewise.
_TEMPLATE = """
.visible .entry k(.param .u64 IN, .param .u64 OUT, .param .u64 DATA{params}) {{
 .shared .align 1024 .b8 image[{shared_bytes}]; .shared .align 8 .b64 bar[2]; .shared .b32 tp;
 .reg .b32 %r<40>; .reg .b32 %v<{registers}>; .reg .b64 %d<30>; .reg .pred %p<10>;
 .reg .b16 %h<2>; .reg .b32 %cta;
 mov.u32 %cta, %ctaid.x;
 mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; mov.u32 %r4, bar; mov.u32 %r5, image; mov.u32 %r6, tp;
 setp.eq.u32 %p0, %r0, 0; setp.ne.u32 %p1, %r1, 0;
 @%p1 bra NOALLOC;
 tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [%r6], 512;
 @%p0 mbarrier.init.shared::cta.b64 [%r4], 1;
 @%p0 mbarrier.init.shared::cta.b64 [%r4+8], 1;
 @%p0 fence.mbarrier_init.release.cluster;
NOALLOC:
 tcgen05.fence::before_thread_sync; {meet} tcgen05.fence::after_thread_sync;
 ld.shared.u32 %r2, [%r6];
 shl.b32 %r3, %r1, 21; add.u32 %r3, %r3, %r2;
 {load_image}
 ld.param.u64 %d1, [IN]; mul.wide.u32 %d2, %r0, 2048; add.u64 %d1, %d1, %d2;
 mul.wide.u32 %d2, %cta, 262144; add.u64 %d1, %d1, %d2;
 mov.u32 %r7, 0; mov.u32 %r8, %r3;
FILL:
 {fill}
 add.u64 %d1, %d1, 64; add.u32 %r8, %r8, 16; add.u32 %r7, %r7, 16;
 setp.lt.u32 %p2, %r7, 512; @%p2 bra FILL;
 tcgen05.wait::st.sync.aligned;
 tcgen05.fence::before_thread_sync; {meet} tcgen05.fence::after_thread_sync;
 {body}
 tcgen05.fence::before_thread_sync; {meet} tcgen05.fence::after_thread_sync;
 ld.param.u64 %d1, [OUT]; mul.wide.u32 %d2, %r0, 2048; add.u64 %d1, %d1, %d2;
 mul.wide.u32 %d2, %cta, 262144; add.u64 %d1, %d1, %d2;
 mov.u32 %r7, 0; mov.u32 %r8, %r3;
DUMP:
 {dump}
 add.u64 %d1, %d1, 64; add.u32 %r8, %r8, 16; add.u32 %r7, %r7, 16;
 setp.lt.u32 %p2, %r7, 512; @%p2 bra DUMP;
 tcgen05.fence::before_thread_sync; {meet} tcgen05.fence::after_thread_sync;
 @%p1 bra END;
 tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %r2, 512;
 tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;
END: ret;
}}
"""
# One bulk copy of the image, waited for by everybody.
_LOAD_IMAGE = """
 @!%p0 bra WAIT_IMAGE;
 ld.param.u64 %d0, [DATA]; mul.wide.u32 %d2, %cta, {bytes}; add.u64 %d0, %d0, %d2;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], {bytes};
 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r5], [%d0], {bytes}, [%r4];
WAIT_IMAGE:
 mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r4], 0; @!%p3 bra WAIT_IMAGE;
"""
#: Ends a body in which thread 0 issued work to the tensor core: waits until it is done.
COMMIT = """
 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4+8];
ISSUED:
 mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r4+8], 0; @!%p3 bra ISSUED;
 tcgen05.fence::after_thread_sync;
"""
CLUSTER_BARRIER = "barrier.cluster.arrive; barrier.cluster.wait;"
_REGS = ", ".join(f"%v{i}" for i in range(16))


def _vectors(op: str) -> str:
    form = (
        "ld.global.v4.b32 {{{0}}}, [%d1+{1}];"
        if op == "ld"
        else "st.global.v4.b32 [%d1+{1}], {{{0}}};"
    )
    groups = [", ".join(f"%v{4 * g + i}" for i in range(4)) for g in range(4)]
    return " ".join(form.format(group, 16 * g) for g, group in enumerate(groups))


def build(
    body: str, *, shared_bytes: int = 16, params: str = "", registers: int = 160, group: int = 1
) -> str:
    """PTX of the kernel with ``body`` between filling and dumping tensor memory.

    With ``group`` 2 the CTAs are pairs, and meet where the threads of one CTA do.
    """
    image = _LOAD_IMAGE.format(bytes=shared_bytes) if shared_bytes > 16 else ""
    return HEADER + _TEMPLATE.format(
        body=body,
        group=group,
        meet="bar.sync 0;" if group == 1 else CLUSTER_BARRIER,
        params=params,
        registers=registers,
        shared_bytes=shared_bytes,
        load_image=image,
        fill=f"{_vectors('ld')} tcgen05.st.sync.aligned.32x32b.x16.b32 [%r8], {{{_REGS}}};",
        dump=f"tcgen05.ld.sync.aligned.32x32b.x16.b32 {{{_REGS}}}, [%r8]; "
        f"tcgen05.wait::ld.sync.aligned; {_vectors('st')}",
    )


def random_cells(rng) -> np.ndarray:
    return rng.integers(0, 2**32, (LANES, COLUMNS), dtype=np.uint32)


def run(text: str, cells, data=None, args=(), grid=1, arch="sm_100a", **options):
    """Launches the kernel on CTAs of 128 threads; returns (cells afterwards, report).

    ``cells`` (LANES, COLUMNS), or (grid, LANES, COLUMNS), of uint32; ``data`` likewise.
    """
    out = np.full_like(cells, 0xDEADBEEF)
    data = np.zeros(16, np.uint8) if data is None else data
    kernel = Device(arch).load_ptx(text.replace("sm_100a", arch))["k"]
    report = kernel.launch(grid, 128, [cells.copy(), out, data, *args], **options)
    return out, report
