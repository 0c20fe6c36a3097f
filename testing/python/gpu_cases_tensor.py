"""Bulk tensor copies of every kind of tensor map, for the comparison of a GPU with the emulator.

A case is given as the CUDA driver takes it, innermost dimension first. Global memory and shared
memory hold the number of each word, so that a result tells where every byte came from.
``python gpu_cases_tensor.py run DIRECTORY NAME...`` runs cases on the GPU of this machine; it ends
with status 3 after a case that leaves the GPU unusable.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

MEMORY_BYTES = 1 << 20
START = 1 << 19  # of the tensor in memory
SHARED_BYTES = 32768
POISON = 0xDEADBEEF
STORED = 0x80000000  # marks the words of shared memory
FAULTED = 3
BITS = {
    "u8": 8, "u16": 16, "u32": 32, "s32": 32, "u64": 64, "f16": 16, "bf16": 16, "f32": 32,
    "f32_ftz": 32, "tf32": 32, "tf32_ftz": 32, "f64": 64,
}  # fmt: skip


class Column(NamedTuple):
    """The im2col form: corners of the bounding box, innermost first."""

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    channels: int
    pixels: int


class CopyCase(NamedTuple):
    """``op`` is "load", "store" or a reduction; ``floats`` fills memory with unusual floats."""

    name: str
    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    coords: tuple[int, ...]
    interleave: str | None = None
    swizzle: str | None = None
    fill: str = "zeros"
    steps: tuple[int, ...] | None = None
    column: Column | None = None
    offsets: tuple[int, ...] = ()
    op: str = "load"
    floats: bool = False

    @property
    def element_strides(self) -> tuple[int, ...]:
        return self.steps or (1,) * len(self.dims)

    @property
    def slice_bytes(self) -> int:
        return {None: 0, "16B": 16, "32B": 32}[self.interleave]

    @property
    def channel_dim(self) -> int:
        return len(self.dims) - 2 if self.interleave else 0


def transfer_bytes(case: CopyCase) -> int:
    """Bytes that a copy moves between global and shared memory."""
    bits = BITS[case.dtype]
    if case.column:
        return (case.slice_bytes or case.column.channels * bits // 8) * case.column.pixels
    box, steps = list(case.box), list(case.element_strides)
    if case.interleave:
        box[case.channel_dim] = 1  # a copy takes one slice
    else:
        steps[0] = 1
    count = int(np.prod([-(-b // s) for b, s in zip(box, steps, strict=True)]))
    return count * (case.slice_bytes or bits // 8)


def memory(case: CopyCase) -> np.ndarray:
    """Global memory before the copy, in words."""
    words = np.arange(MEMORY_BYTES // 4, dtype=np.uint32)
    if not case.floats:
        return words + 1
    rng = np.random.default_rng(7)
    values = rng.integers(0, 1 << 32, words.size, dtype=np.uint64).astype(np.uint32)
    special = [0, 1 << 31, 1, 0x807FFFFF, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFC12345,
               0x00800000, 0x3F800FFF, 0x3F801000, 0x3F801001, 0x7F7FFFFF, 0x007FF000]  # fmt: skip
    values[::3] = np.array(special, np.uint32)[words[::3] % len(special)]
    return values


_KERNEL = """.version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 M[128], .param .u64 P0, .param .u64 P1) {{
 .reg .b32 %x<9>; .reg .b32 %i<9>; .reg .b64 %a<9>; .reg .pred %p<4>; .reg .b16 %h<4>;
 .shared .align 1024 .b8 sm[{shared}]; .shared .align 8 .b64 bar;
 mov.u32 %i0, %tid.x; mov.u32 %i1, sm; mov.u32 %i2, bar; setp.ne.u32 %p0, %i0, 0; {moves}
 mov.u64 %a0, M; cvta.param.u64 %a0, %a0; ld.param.u64 %a1, [P1];
 mov.u32 %i3, %i0;
Z: shl.b32 %i4, %i3, 2; add.u32 %i4, %i4, %i1; {fill}
 st.shared.u32 [%i4], %i5;
 add.u32 %i3, %i3, 128; setp.lt.u32 %p1, %i3, {words}; @%p1 bra Z;
 fence.proxy.async.shared::cta;
 @%p0 bra W;
 mbarrier.init.shared::cta.b64 [%i2], 1; fence.mbarrier_init.release.cluster;
W: bar.sync 0;
{body}
 ret;
}}"""
# The wait is bounded: a GPU that moves other amounts than expected must not hang.
_LOAD = """ @%p0 bra V;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%i2], {size};
 cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes
   [%i1], [%a0, {{{coords}}}], [%i2]{offsets};
V: mov.u32 %i7, 0;
T: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%i2], 0; @%p2 bra D;
 add.u32 %i7, %i7, 1; setp.lt.u32 %p1, %i7, 3000; @%p1 bra T;
D: mov.u32 %i3, %i0;
C: shl.b32 %i4, %i3, 2; add.u32 %i5, %i4, %i1; ld.shared.u32 %i6, [%i5]; cvt.u64.u32 %a2, %i4;
 add.u64 %a2, %a2, %a1; st.global.u32 [%a2], %i6;
 add.u32 %i3, %i3, 128; setp.lt.u32 %p1, %i3, {words}; @%p1 bra C;
 @%p0 bra E;
 selp.u32 %i3, 1, 0, %p2; st.global.u32 [%a1+{shared}], %i3;
E:"""
_STORE = """ @%p0 bra E;
 {instruction}.bulk_group [%a0, {{{coords}}}], [%i1];
 cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
E:"""


def ptx(case: CopyCase) -> str:
    """Loads: shared memory goes to P1, then 1 if the barrier's phase ended. Others: as it lies."""
    rank = len(case.dims)
    registers = [f"%x{i}" for i in range(rank)]
    moves = "".join(f"mov.u32 {r}, {v};" for r, v in zip(registers, case.coords, strict=True))
    moves += "".join(f"mov.u16 %h{i}, {v};" for i, v in enumerate(case.offsets))
    fields = {"rank": rank, "coords": ", ".join(registers), "shared": SHARED_BYTES}
    fields["words"] = SHARED_BYTES // 4
    if case.op == "load":
        names = ", ".join(f"%h{i}" for i in range(len(case.offsets)))
        fields["offsets"] = f", {{{names}}}" if case.offsets else ""
        fields["mode"] = "im2col" if case.column else "tile"
        body = _LOAD.format(size=transfer_bytes(case), **fields)
        fill = f"mov.u32 %i5, {POISON};"
    else:
        copy = "cp.async" if case.op == "store" else "cp.reduce.async"
        copy += f".bulk.tensor.{rank}d.global.shared::cta"
        copy += "" if case.op == "store" else f".{case.op}"
        copy += ".im2col_no_offs" if case.column else ".tile"
        body = _STORE.format(instruction=copy, **fields)
        fill = f"or.b32 %i5, %i3, {STORED};"
    return _KERNEL.format(moves=moves, body=body, fill=fill, **fields)


def _cases_plain() -> list[CopyCase]:
    """Maps without an interleave: ranks, types, fills, narrow boxes, im2col."""
    rank4 = ((40, 9, 7, 5), (96, 896, 6272))  # u16, rows padded to 96 bytes
    box4 = (16, 3, 4, 2)
    cases = [
        CopyCase("4d low edge", "u16", *rank4, box4, (-8, -1, 2, -1)),
        CopyCase("4d strided", "u16", *rank4, (16, 5, 7, 2), (8, 3, 0, 1), steps=(1, 2, 3, 1)),
        CopyCase("5d", "u32", (12, 5, 4, 3, 2), (48, 240, 960, 2880), (8, 2, 3, 2, 2),
                 (8, 3, 1, 2, 0)),
        CopyCase("4d store", "u16", *rank4, box4, (32, 7, 2, 4), op="store"),
        CopyCase("4d strided store", "u16", *rank4, (16, 5, 7, 2), (8, 3, 0, 1),
                 steps=(1, 2, 3, 1), op="store"),
        CopyCase("4d store from negative coordinates", "u16", *rank4, box4, (-8, 7, -2, 4),
                 op="store"),
        CopyCase("4d add", "u32", (20, 9, 7, 5), rank4[1], (8, 3, 4, 2), (16, 7, 2, 4), op="add"),
    ]  # fmt: skip
    for dtype in ("f16", "bf16", "f32", "f64"):
        per = 128 // BITS[dtype]
        cases.append(CopyCase(f"nan fill {dtype}", dtype, (3 * per, 6), (64,), (2 * per, 5),
                              (2 * per, 3), fill="nan"))  # fmt: skip
    for dtype in ("f32", "f32_ftz", "tf32", "tf32_ftz"):
        cases.append(CopyCase(f"floats {dtype}", dtype, (64, 8), (256,), (32, 8), (0, 0),
                              floats=True))  # fmt: skip
    for swizzle, inner in [("32B", 8), ("64B", 16), ("64B", 8), ("128B", 32), ("128B", 16),
                           ("128B", 8)]:  # fmt: skip
        for op in ("load", "store"):
            cases.append(CopyCase(f"box of {2 * inner} bytes swizzle {swizzle} {op}", "u16",
                                  (64, 40), (128,), (inner, 24), (8, 5), swizzle=swizzle,
                                  op=op))  # fmt: skip
    for name, fields in _COLUMNS.items():
        channels = {"dtype": "u16", "box": (), **fields}
        dims = (24, *fields["dims"])
        channels["dims"] = dims
        channels["strides"] = tuple(48 * int(np.prod(dims[1:d])) for d in range(1, len(dims)))
        channels["coords"] = (8, *fields["coords"])
        channels["column"] = Column(*fields["column"], 16, 37)
        if "steps" in fields:
            channels["steps"] = (1, *fields["steps"])
        cases.append(CopyCase(f"im2col {name}", **channels))
    return cases


# Spatial dimensions and the images; corners are (lower, upper).
_COLUMNS = {
    "3d": {"dims": (9, 4), "coords": (2, 1), "column": ((-1,), (-3,)), "offsets": (2,)},
    "4d": {"dims": (9, 7, 3), "coords": (1, 2, 0), "column": ((-1, -2), (-3, 0)),
           "offsets": (2, 1)},
    "4d strided": {"dims": (9, 7, 3), "coords": (-1, 2, 0), "column": ((-1, -2), (-3, 0)),
                   "offsets": (2, 1), "steps": (2, 3, 1)},
    "4d every other image": {"dims": (4, 3, 7), "coords": (0, 0, 1), "column": ((0, 0), (0, 0)),
                             "offsets": (0, 0), "steps": (1, 1, 2)},
    "5d": {"dims": (5, 4, 3, 2), "coords": (0, 1, -1, 0),
           "column": ((-1, 0, -2), (0, -2, -1)), "offsets": (1, 2, 3)},
    "4d store": {"dims": (9, 7, 3), "coords": (1, 2, 0), "column": ((0, 0), (0, 0)),
                 "op": "store"},
}  # fmt: skip


class _Shape(NamedTuple):
    """An interleaved tensor W, (H, D,) C, N of padded slices and images."""

    spatial: tuple[int, ...]
    slices: int
    images: int

    def fields(self, dtype: str, interleave: str) -> dict:
        size = {"16B": 16, "32B": 32}[interleave]
        strides = [size * int(np.prod(self.spatial[:d])) for d in range(1, len(self.spatial) + 1)]
        strides[-1] += 64  # between slices
        strides.append(strides[-1] * self.slices + 96)
        fields = {"dtype": dtype, "dims": (*self.spatial, self.slices, self.images)}
        fields["strides"] = tuple(strides)
        fields["interleave"] = interleave
        fields["swizzle"] = "32B" if interleave == "32B" else None
        return fields


_RANK3, _RANK4, _RANK5 = _Shape((12,), 5, 3), _Shape((10, 7), 5, 3), _Shape((6, 5, 4), 3, 2)


def _cases_interleaved() -> list[CopyCase]:
    """The driver wants boxes of whole 16 bytes along W, as if elements were not slices."""
    cases = []

    def add(name: str, shape: _Shape, box, coords, dtype="u16", interleave="16B",
            **fields):  # fmt: skip
        common = shape.fields(dtype, interleave)
        case = CopyCase(name=f"interleave {interleave} {name}", box=box, coords=coords,
                        **{**common, **fields})  # fmt: skip
        cases.append(case)

    for interleave in ("16B", "32B"):
        options = {"interleave": interleave}
        add("3d", _RANK3, (8, 1, 2), (2, 1, 1), **options)
        add("3d box of 10 bytes", _RANK3, (5, 1, 2), (2, 1, 1), **options)
        add("3d box of slices", _RANK3, (8, 3, 2), (2, 1, 1), **options)
        add("3d box of channels", _RANK3, (8, 16, 1), (3, 4, 2), **options)
        add("3d low edge", _RANK3, (8, 2, 2), (-2, 0, -1), **options)
        add("3d high edge", _RANK3, (8, 2, 2), (9, 4, 2), **options)
        add("3d before the slices", _RANK3, (8, 2, 2), (1, -1, 0), **options)
        add("3d behind the slices", _RANK3, (8, 1, 2), (1, 5, 0), **options)
        add("4d", _RANK4, (8, 3, 2, 2), (3, 2, 1, 1), **options)
        add("4d edges", _RANK4, (8, 3, 1, 2), (5, -1, 3, 2), **options)
        add("5d", _RANK5, (8, 2, 3, 2, 1), (2, 3, 1, 1, 1), **options)
        add("4d store", _RANK4, (8, 3, 1, 2), (8, 5, 3, 1), op="store", **options)
        add("3d add", _RANK3, (8, 1, 2), (9, 2, 2), "u32", op="add", **options)
    for dtype in ("u8", "f32", "f64", "bf16"):
        add(f"3d {dtype}", _RANK3, (16, 2, 2), (9, 1, 1), dtype)
    for swizzle in ("32B", "64B", "128B"):
        add(f"4d swizzle {swizzle}", _RANK4, (8, 3, 1, 2), (3, 2, 1, 1), swizzle=swizzle)
    for steps in ((2, 1, 1, 1), (1, 3, 1, 1), (1, 1, 2, 1), (1, 1, 1, 2)):
        add(f"4d strided {steps}", _RANK4, (8, 4, 3, 2), (1, 2, 1, 0), steps=steps)
    add("3d nan", _RANK3, (8, 1, 2), (9, 2, 2), "f16", fill="nan")
    return cases + _columns_interleaved()


def _columns_interleaved() -> list[CopyCase]:
    cases = []
    for interleave in ("16B", "32B"):
        for name, fields in _COLUMNS.items():
            *spatial, images = fields["dims"]
            common = _Shape(tuple(spatial), 4, images).fields("u16", interleave)
            *start, image = fields["coords"]
            common |= {k: v for k, v in fields.items() if k in ("offsets", "op")}
            if "steps" in fields:
                common["steps"] = (*fields["steps"][:-1], 1, fields["steps"][-1])
            cases.append(
                CopyCase(
                    name=f"interleave {interleave} im2col {name}",
                    box=(),
                    coords=(*start, 2, image),
                    column=Column(*fields["column"], 16, 37),
                    **common,
                )
            )
    return cases


def explain(case: CopyCase, got: np.ndarray, expected: np.ndarray) -> str:
    """The runs of words that differ, each with where its first word came from."""

    def source(word: int) -> str:
        if case.op not in ("load", "store"):
            return f"{word:#x}"
        if case.op == "store" and word & STORED:
            return f"shared+{(word ^ STORED) * 4}"
        if word == POISON:
            return "untouched"
        if case.floats or not 0 < word <= MEMORY_BYTES // 4:
            return f"{word:#x}"
        return f"tensor{(word - 1) * 4 - START:+d}"

    where = 0 if case.op == "load" else START
    lines, last = [], None
    for i in np.flatnonzero(got != expected):
        steps = (int(got[i]) - int(got[i - 1]), int(expected[i]) - int(expected[i - 1]))
        if last != i - 1 or not set(steps) <= {0, 1}:
            here = f"{i * 4 - where:+d}: {source(int(got[i]))}, not {source(int(expected[i]))}"
            lines.append(here)
        last = i
    place = "shared memory" if case.op == "load" else "the tensor"
    return f"in {place} at byte\n" + "\n".join(lines[:150])


CASES = {case.name: case for case in (*_cases_plain(), *_cases_interleaved())}


class Refused(Exception):
    """The driver encodes no such map."""


class TensorGpu:
    """Runs cases through the CUDA driver."""

    def __init__(self) -> None:
        from gpu_cases import Gpu

        self._gpu = Gpu()

    def encode(self, case: CopyCase, address: int):
        """Returns the driver's tensor map; raises Refused."""
        d = self._gpu.driver
        kinds = {"u8": "UINT8", "u16": "UINT16", "u32": "UINT32", "s32": "INT32", "u64": "UINT64",
                 "f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32", "f64": "FLOAT64",
                 "f32_ftz": "FLOAT32_FTZ", "tf32": "TFLOAT32",
                 "tf32_ftz": "TFLOAT32_FTZ"}  # fmt: skip
        fill = "NAN_REQUEST_ZERO_FMA" if case.fill == "nan" else "NONE"
        head = (
            getattr(d.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{kinds[case.dtype]}"),
            len(case.dims),
            address,
            [d.cuuint64_t(n) for n in case.dims],
            [d.cuuint64_t(n) for n in case.strides],
        )
        tail = (
            [d.cuuint32_t(n) for n in case.element_strides],
            getattr(d.CUtensorMapInterleave,
                    f"CU_TENSOR_MAP_INTERLEAVE_{case.interleave or 'NONE'}"),
            getattr(d.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{case.swizzle or 'NONE'}"),
            d.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
            getattr(d.CUtensorMapFloatOOBfill, f"CU_TENSOR_MAP_FLOAT_OOB_FILL_{fill}"),
        )  # fmt: skip
        if case.column is None:
            box = [d.cuuint32_t(n) for n in case.box]
            error, encoded = d.cuTensorMapEncodeTiled(*head, box, *tail)
        else:
            column = case.column
            corners = (list(column.lower), list(column.upper), column.channels, column.pixels)
            error, encoded = d.cuTensorMapEncodeIm2col(*head, *corners, *tail)
        if int(error) != 0:
            raise Refused(str(error))
        return encoded

    def run(self, case: CopyCase) -> tuple[np.ndarray, np.ndarray]:
        """Returns the 16 words of the map (addresses from the tensor's start) and the output."""
        d, call = self._gpu.driver, self._gpu._call
        arrays = [memory(case), np.zeros(SHARED_BYTES // 4 + 4, np.uint32)]
        pointers = [int(call(d.cuMemAlloc(a.nbytes))) for a in arrays]
        for pointer, array in zip(pointers, arrays, strict=True):
            call(d.cuMemcpyHtoD(pointer, array, array.nbytes))
        encoded = self.encode(case, pointers[0] + START)
        words = np.array([int(w) for w in encoded.opaque], np.uint64)
        words[0] -= np.uint64(pointers[0] + START)
        kernel = call(d.cuModuleGetFunction(
            call(d.cuModuleLoadData(ptx(case).encode() + b"\0")), b"k"))  # fmt: skip
        values = [np.array([p], np.uint64) for p in pointers]
        table = np.array([int(encoded.getPtr()), *(v.ctypes.data for v in values)], np.uint64)
        call(d.cuLaunchKernel(kernel, 1, 1, 1, 128, 1, 1, 0, 0, table.ctypes.data, 0))
        call(d.cuCtxSynchronize())
        which = 1 if case.op == "load" else 0
        out = np.empty_like(arrays[which])
        call(d.cuMemcpyDtoH(out, pointers[which], out.nbytes))
        for pointer in pointers:
            call(d.cuMemFree(pointer))
        return words, out


def _run_one(gpu: TensorGpu, directory: Path, name: str) -> None:
    try:
        words, out = gpu.run(CASES[name])
    except Refused as error:
        (directory / f"{name}.txt").write_text(f"refused by the driver: {error}")
    except RuntimeError as error:
        (directory / f"{name}.txt").write_text(f"failed on the GPU: {error}")
        sys.exit(FAULTED)
    else:
        np.savez(directory / f"{name}.npz", map=words, out=out)


if __name__ == "__main__":
    tensor_gpu = TensorGpu()
    for argument in sys.argv[3:]:
        _run_one(tensor_gpu, Path(sys.argv[2]), argument)
