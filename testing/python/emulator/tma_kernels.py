"""Kernels that copy a box by TMA, and the box walk of the PTX ISA in NumPy."""

import itertools

import numpy as np

from tilelang.emulator import Device

HEADER = ".version 9.0\n.target sm_100a\n.address_size 64\n"
SHARED = 16384
SWIZZLE_XOR = {
    None: lambda a: a,
    "32B": lambda a: a ^ (((a >> 7) & 1) << 4),
    "64B": lambda a: a ^ (((a >> 7) & 3) << 4),
    "128B": lambda a: a ^ (((a >> 7) & 7) << 4),
    "128B_atom32B": lambda a: a ^ (((a >> 7) & 3) << 5),
    "128B_atom32B_flip8B": lambda a: a ^ (((a >> 7) & 3) << 5) ^ (((a >> 7) & 1) << 3),
}
SWIZZLE_WIDTH = {"32B": 32, "64B": 64, "128B": 128}
WIDTH = {None: 256, "32B": 32, "64B": 64}

# Thread 0 issues; everybody copies shared memory from or to IMAGE.
_KERNEL = """
.visible .entry k(.param .align 64 .b8 MAP[128], .param .u64 IMAGE, .param .u64 COORDS) {{
 .shared .align 1024 .b8 tile[{shared}]; .shared .align 8 .b64 bar;
 .reg .b32 %r<40>; .reg .b16 %h<8>; .reg .b64 %d<20>; .reg .pred %p<6>;
 mov.u32 %r0, %tid.x; mov.u32 %r1, tile; mov.u32 %r2, bar; setp.eq.u32 %p0, %r0, 0;
 mov.u64 %d0, MAP; cvta.param.u64 %d0, %d0; ld.param.u64 %d1, [COORDS];
 {loads}
 ld.param.u64 %d2, [IMAGE]; mul.wide.u32 %d3, %r0, 4; add.u64 %d2, %d2, %d3;
 mul.lo.u32 %r20, %r0, 4; add.u32 %r20, %r20, %r1; mov.u32 %r21, 0;
 {body}
 ret;
}}
"""
_LOAD = """
 @%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
 @%p0 fence.mbarrier_init.release.cluster;
 bar.sync 0;
 @!%p0 bra WAIT;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {counted};
 cp.async.bulk.tensor.{rank}d.shared::cta.global{mode}.mbarrier::complete_tx::bytes
   [%r1], [%d0, {{{coords}}}], [%r2]{offsets};
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0; @!%p1 bra WAIT;
COPY: ld.shared.b32 %r22, [%r20]; st.global.b32 [%d2], %r22;
 add.u32 %r20, %r20, 512; add.u64 %d2, %d2, 512; add.u32 %r21, %r21, 512;
 setp.lt.u32 %p2, %r21, {bytes}; @%p2 bra COPY;
"""
_STORE = """
COPY: ld.global.b32 %r22, [%d2]; st.shared.b32 [%r20], %r22;
 add.u32 %r20, %r20, 512; add.u64 %d2, %d2, 512; add.u32 %r21, %r21, 512;
 setp.lt.u32 %p2, %r21, {bytes}; @%p2 bra COPY;
 fence.proxy.async.shared::cta;
 bar.sync 0;
 @!%p0 bra END;
 {instruction}.bulk_group [%d0, {{{coords}}}], [%r1];
 cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
END:
"""


def kernel(template, rank, count=None, **fields):
    count = count or rank
    loads = " ".join(f"ld.global.u32 %r{5 + i}, [%d1+{4 * i}];" for i in range(count))
    coords = ", ".join(f"%r{5 + i}" for i in range(count))
    fields.setdefault("counted", fields.get("bytes"))
    body = template.format(rank=rank, coords=coords, **fields)
    return HEADER + _KERNEL.format(shared=SHARED, loads=loads, body=body)


def load(tensor_map, nbytes, coords, rank, *, mode="", offsets="", counted=0, **options):
    """Bytes that a load leaves in shared memory; coordinates innermost first.

    ``counted``: what the mbarrier expects, if it is not ``nbytes``.
    """
    padded = -(-nbytes // 512) * 512
    image = np.full(padded, 0xCC, np.uint8)
    text = kernel(_LOAD, rank, len(coords), bytes=nbytes, counted=counted or nbytes, mode=mode,
                  offsets=offsets)  # fmt: skip
    DEVICE.load_ptx(text)["k"].launch(
        1, 128, [tensor_map, image, np.array(coords, np.int32)], **options
    )
    return image[:nbytes]


DEVICE = Device("sm_100a")


def box_of(array, box, origin, fill, strides=None):
    """Elements of the box, in the array's order."""
    strides = strides or [1] * array.ndim
    counts = [-(-b // s) for b, s in zip(box, strides, strict=True)]
    out = np.full(counts, fill, array.dtype)
    for index in itertools.product(*map(range, counts)):
        at = [o + i * s for o, i, s in zip(origin, index, strides, strict=True)]
        if all(0 <= a < n for a, n in zip(at, array.shape, strict=True)):
            out[index] = array[tuple(at)]
    return out


def swizzled(data, swizzle):
    raw = np.frombuffer(data.tobytes(), np.uint8)
    out = np.zeros_like(raw)
    out[SWIZZLE_XOR[swizzle](np.arange(raw.size))] = raw
    return out


def in_lines(data, swizzle):
    """Rows of a box narrower than the swizzle, each at the start of a line of it."""
    lines = np.full((len(data), SWIZZLE_WIDTH[swizzle]), 0xCC, np.uint8)
    lines[:, : data.strides[0]] = data.view(np.uint8).reshape(len(data), -1)
    return lines


def random_array(rng, shape, dtype):
    raw = rng.integers(0, 256, (*shape, np.dtype(dtype).itemsize), dtype=np.uint8)
    if np.issubdtype(dtype, np.floating):
        return rng.standard_normal(shape).astype(dtype)
    return raw.view(dtype).reshape(shape)
