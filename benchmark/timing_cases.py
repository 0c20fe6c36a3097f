"""The kernels on which the timing model is compared with a GPU, and how to launch each.

A case is named ``family/variant``; the variants of a family do the same work in other tiles, stages
or numbers of threads. ``timing_split.txt`` says which cases the model's figures may be fitted to.
Arguments are numbers or ``"type[extents]"``: normal random numbers, or integers below the first
extent of the tensor before it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
sys.path[:0] = [str(_HERE), str(_HERE.parent / "examples" / "flash_attention")]

TARGET = "sm_90a"
#: What kernels are compiled for that name no target, also where there is no GPU.
os.environ["TILELANG_DEFAULT_TARGET"] = TARGET


@dataclasses.dataclass(frozen=True)
class Foreign:
    """A kernel that this compiler did not make: PTX, machine code and its launch."""

    ptx: str
    cubin: bytes
    entry: str
    grid: tuple[int, ...]
    threads: int
    smem: int
    args: tuple[Any, ...]

    def save(self, stem: Path) -> None:
        """Writes the three files of a built kernel."""
        fields = {"entry": self.entry, "grid": self.grid, "threads": self.threads,
                  "smem": self.smem, "args": self.args}  # fmt: skip
        stem.with_suffix(".json").write_text(json.dumps(fields))
        stem.with_suffix(".ptx").write_text(self.ptx)
        stem.with_suffix(".cubin").write_bytes(self.cubin)

    @classmethod
    def load(cls, stem: Path) -> Foreign:
        """Reads what ``save`` wrote."""
        fields = json.loads(stem.with_suffix(".json").read_text())
        cubin = stem.with_suffix(".cubin").read_bytes()
        return cls(stem.with_suffix(".ptx").read_text(), cubin, **fields)


@dataclasses.dataclass(frozen=True)
class Case:
    """One kernel on one problem.

    Attributes:
        name: ``family/variant``.
        kind: of the table of errors, as "softmax" or "gemm, wgmma".
        make: returns a compiled kernel of this compiler, or a :class:`Foreign`.
        args: of a kernel of this compiler; a foreign one has its own.
        flops: floating-point operations of the work, 0 where bytes count.
        bytes: least bytes that it moves through memory.
    """

    name: str
    kind: str
    make: Callable[[], Any]
    args: tuple[Any, ...] = ()
    flops: float = 0
    bytes: float = 0

    @property
    def stem(self) -> str:
        """The name as a file's."""
        return "".join(c if c.isalnum() or c in "._-" else "-" for c in self.name)


def assemble(ptx: str) -> bytes:
    """Machine code for the GPU, also of PTX that is written for an older one."""
    from tilelang.runtime.toolchain import find_ptxas

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.ptx")
        path.write_text(ptx)
        out = path.with_suffix(".cubin")
        subprocess.run([str(find_ptxas()), f"-arch={TARGET}", path, "-o", out], check=True)
        return out.read_bytes()


def cuda(
    source: str, grid: tuple[int, ...], threads: int, args: tuple[Any, ...], smem: int = 0,
    **constants: int,
) -> Callable[[], Foreign]:  # fmt: skip
    """A kernel in CUDA C++."""

    def make() -> Foreign:
        from timing_cuda import SOURCES

        from tilelang.runtime.nvrtc import compile_cuda

        defines = "".join(f"#define {name} {value}\n" for name, value in constants.items())
        artifact = compile_cuda(defines + SOURCES[source], TARGET)
        return Foreign(artifact.ptx, artifact.cubin, "kernel", grid, threads, smem, args)

    return make


_POINTERS = {"f32": "*fp32", "bf16": "*bf16", "f16": "*fp16", "s32": "*i32"}


def triton(
    function: str, grid: tuple[int, ...], args: tuple[Any, ...], warps: int = 4, stages: int = 3,
    arch: int = 90, **constants: int,
) -> Callable[[], Foreign]:  # fmt: skip
    """A kernel in Triton; ``arch`` 80 makes it use mma.sync."""

    def make() -> Foreign:
        import timing_triton
        from triton import compile as build
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        source = getattr(timing_triton, function)
        names = source.arg_names
        runtime = names[: len(args)]
        signature = {
            name: "fp32" if isinstance(arg, float) else "i32" if isinstance(arg, int)
            else _POINTERS[arg.split("[")[0]]
            for name, arg in zip(runtime, args, strict=True)
        }  # fmt: skip
        signature |= dict.fromkeys(constants, "constexpr")
        aligned = [i for i, arg in enumerate(args) if not isinstance(arg, float)
                   and (isinstance(arg, str) or arg % 16 == 0)]  # fmt: skip
        compiled = build(
            ASTSource(source, signature, {(names.index(n),): v for n, v in constants.items()},
                      {(i,): [["tt.divisibility", 16]] for i in aligned}),
            target=GPUTarget("cuda", arch, 32),
            options={"num_warps": warps, "num_stages": stages, "ptx_version": 87},
        )  # fmt: skip
        ptx = compiled.asm["ptx"]
        return Foreign(ptx, assemble(ptx), compiled.metadata.name, grid, warps * 32,
                       compiled.metadata.shared, (*args, 0, 0))  # fmt: skip

    return make


#: of gemms that were measured before the compiler chose their tiles and blocks
_AS_MEASURED = {"tl.disable_tile_widening": True, "tl.disable_persistent_blocks": True}


def _tiles(function: str, *args: Any, module: str = "timing_tiles", configs: Any = None,
           **options: Any) -> Callable[[], Any]:  # fmt: skip
    """A kernel of this compiler."""

    def make() -> Any:
        jit = getattr(__import__(module), function)
        chosen = _AS_MEASURED if configs is None and function == "tiled_gemm" else configs
        if chosen is None:
            return jit(*args, **options)
        import tilelang

        # The prim_func with other options of the compiler than its decorator's.
        return tilelang.compile(jit.get_tir(*args, **options), target=TARGET, pass_configs=chosen)

    return make


def _elementwise() -> Iterator[Case]:
    n = 1 << 26
    f32, bf16 = f"f32[{n}]", f"bf16[{n}]"
    for block, threads in ((1024, 128), (2048, 256), (4096, 256), (8192, 256), (4096, 1024)):
        options = {"block": block, "threads": threads}
        yield Case(f"add/{block} by {threads}", "elementwise", _tiles("add", n, **options),
                   (f32,) * 3, bytes=12 * n)  # fmt: skip
    for block, threads in ((2048, 128), (4096, 256), (8192, 512)):
        options = {"block": block, "threads": threads}
        yield Case(f"gelu/{block} by {threads}", "elementwise", _tiles("gelu", n, **options),
                   (bf16,) * 2, bytes=4 * n)  # fmt: skip
        yield Case(f"silu_mul/{block} by {threads}", "elementwise",
                   _tiles("silu_mul", n, **options), (bf16,) * 3, bytes=6 * n)  # fmt: skip
    yield Case("convert/f32 to bf16", "elementwise", _tiles("convert", n), (f32, bf16), bytes=6 * n)
    yield Case("convert/bf16 to f32", "elementwise",
               _tiles("convert", n, source="bfloat16", target="float32"), (bf16, f32),
               bytes=6 * n)  # fmt: skip
    small = 1 << 20
    yield Case("add_small/4096 by 256", "elementwise", _tiles("add", small),
               (f"f32[{small}]",) * 3, bytes=12 * small)  # fmt: skip
    for width, threads, blocks in ((1, 256, 1 << 18), (4, 256, 1 << 16), (4, 128, 1056),
                                   (1, 1024, 264), (4, 512, 264)):  # fmt: skip
        yield Case(
            f"stream/{4 * width} B, {blocks} blocks of {threads}", "elementwise",
            cuda("stream", (blocks,), threads, (f32, f32, f32, n // width), WIDTH=width,
                 THREADS=threads), bytes=12 * n,
        )  # fmt: skip
    for block, warps in ((1024, 4), (2048, 8), (512, 4)):
        yield Case(f"triton add/{block} by {warps} warps", "elementwise",
                   triton("add", (n // block,), (f32, f32, f32, n), warps, BLOCK=block),
                   bytes=12 * n)  # fmt: skip
    yield Case("triton gelu/1024", "elementwise",
               triton("gelu", (n // 1024,), (bf16, bf16, n), BLOCK=1024), bytes=4 * n)  # fmt: skip


def _arithmetic() -> Iterator[Case]:
    for kind, name in enumerate(("fma", "ex2", "hash", "rsqrt")):
        for chains in (1, 4):
            n, steps = 132 * 256 * 16, 512
            yield Case(
                f"arithmetic {name}/{chains} chains", "arithmetic",
                cuda("arithmetic", (n // 256,), 256, (f"f32[{n}]", f"f32[{n}]", steps), KIND=kind,
                     CHAINS=chains), flops=2.0 * n * steps * chains,
            )  # fmt: skip
    n = 132 * 256 * 8
    yield Case("arithmetic f64/2 chains", "arithmetic",
               cuda("double", (n // 256,), 256, (f"f64[{n}]", f"f64[{n}]", 512)),
               flops=4.0 * n * 512)  # fmt: skip


def _accesses() -> Iterator[Case]:
    n = 1 << 24
    for stride in (1, 2, 4, 8, 32):
        yield Case(f"strided/{stride}", "access patterns",
                   cuda("strided", (n // 256,), 256, (f"f32[{n * stride}]", f"f32[{n}]", n),
                        STRIDE=stride), bytes=4 * n * (1 + min(stride, 8)))  # fmt: skip
    for table in (1 << 16, 1 << 22, 1 << 28):
        yield Case(f"gather/of {table}", "access patterns",
                   cuda("gather", (n // 256,), 256,
                        (f"f32[{table}]", f"s32[{n}]", f"f32[{n}]", n)), bytes=8 * n)  # fmt: skip
    for blocks in (264, 2112):
        yield Case(f"histogram/{blocks} blocks", "access patterns",
                   cuda("histogram", (blocks,), 256, (f"s32[{1 << 26}]", "s32[256]", 1 << 26)),
                   bytes=1 << 28)  # fmt: skip
    m = 8192
    yield Case("stencil/8192", "access patterns",
               cuda("stencil", (m // 32, m // 8), 256, (f"f32[{m},{m}]", f"f32[{m},{m}]", m, m)),
               bytes=8 * m * m)  # fmt: skip


def _transposes() -> Iterator[Case]:
    m = 8192
    f32, bf16 = f"f32[{m},{m}]", f"bf16[{m},{m}]"
    for name, constants in {"direct": (0, 0), "conflicts": (1, 0), "padded": (1, 1)}.items():
        yield Case(f"transpose/{name}", "transpose",
                   cuda("transpose", (m // 32, m // 32), 256, (f32, f32, m, m),
                        STAGED=constants[0], PAD=constants[1]), bytes=8 * m * m)  # fmt: skip
    for tile, threads in ((32, 256), (64, 256), (64, 512), (128, 256)):
        yield Case(f"transpose tiles/{tile} by {threads}", "transpose",
                   _tiles("transpose", m, m, tile=tile, threads=threads), (f32, f32),
                   bytes=8 * m * m)  # fmt: skip
    yield Case("transpose tiles/bf16 64 by 256", "transpose",
               _tiles("transpose", m, m, dtype="bfloat16"), (bf16,) * 2,
               bytes=4 * m * m)  # fmt: skip
    for tile in (32, 64):
        yield Case(f"triton transpose/{tile}", "transpose",
                   triton("transpose", (m // tile, m // tile), (f32, f32, m, m), TILE=tile),
                   bytes=8 * m * m)  # fmt: skip


def _rows() -> Iterator[Case]:
    for rows, columns, threads in ((65536, 1024, 128), (16384, 4096, 128), (16384, 4096, 256),
                                   (16384, 4096, 512), (8192, 8192, 128), (8192, 8192, 256),
                                   (8192, 8192, 512), (131072, 512, 128)):  # fmt: skip
        x = f"bf16[{rows},{columns}]"
        settings = {"module": "row_kernels", "threads": threads}
        yield Case(f"softmax {columns}/{threads} threads", "softmax",
                   _tiles("softmax", rows, columns, **settings), (x,),
                   bytes=4 * rows * columns)  # fmt: skip
        if threads == 256:
            yield Case(f"copy rows {columns}/{threads} threads", "copy",
                       _tiles("copy", rows, columns, **settings), (x,),
                       bytes=4 * rows * columns)  # fmt: skip
        if columns in (1024, 4096, 8192) and (columns == 4096 or threads == 128):
            w = f"bf16[{columns}]"
            yield Case(f"rms_norm {columns}/{threads} threads", "norm",
                       _tiles("rms_norm", rows, columns, block=1, **settings), (x, w),
                       bytes=4 * rows * columns)  # fmt: skip
            yield Case(f"layer_norm {columns}/{threads} threads", "norm",
                       _tiles("layer_norm", rows, columns, **settings), (x, w, w),
                       bytes=4 * rows * columns)  # fmt: skip
    yield Case("rms_norm 4096/4 rows", "norm",
               _tiles("rms_norm", 16384, 4096, module="row_kernels"),
               ("bf16[16384,4096]", "bf16[4096]"), bytes=4 << 26)  # fmt: skip
    for columns, warps in ((1024, 4), (4096, 8), (8192, 8)):
        rows = (1 << 26) // columns
        x, w = f"bf16[{rows},{columns}]", f"bf16[{columns}]"
        yield Case(f"triton softmax/{columns}", "softmax",
                   triton("softmax", (rows,), (x, x, columns), warps, TILE=columns),
                   bytes=4 << 26)  # fmt: skip
        yield Case(f"triton layer_norm/{columns}", "norm",
                   triton("layer_norm", (rows,), (x, w, w, x, columns), warps, TILE=columns),
                   bytes=4 << 26)  # fmt: skip
    for columns in (256, 512, 1024):
        rows = (1 << 25) // columns
        x = f"f32[{rows},{columns}]"
        yield Case(f"row_softmax/{columns}", "softmax",
                   cuda("row_softmax", (rows // 8,), 256, (x, x, rows), COLUMNS=columns),
                   bytes=8 << 25)  # fmt: skip
    for threads in (64, 256, 1024):
        yield Case(f"row_sum/{threads} threads", "reduction",
                   cuda("row_sum", (16384,), threads, ("f32[16384,4096]", "f32[16384]", 4096),
                        THREADS=threads), bytes=4 << 26)  # fmt: skip
    yield Case("column_sum/64 x 128", "reduction", _tiles("column_sum", 4096, 16896),
               ("f32[4096,16896]", "f32[16896]"), bytes=4 * 4096 * 16896)  # fmt: skip


def _simt() -> Iterator[Case]:
    m = 2048
    x = (f"f32[{m},{m}]",) * 3
    for tile in (16, 32):
        yield Case(f"sgemm/simple {tile}", "matmul, SIMT",
                   cuda("sgemm_simple", (m // tile, m // tile), tile * tile, (*x, m, m, m),
                        TILE=tile), flops=2 * m**3)  # fmt: skip
    for bm, bn, bk in ((64, 64, 8), (64, 64, 16), (128, 64, 8), (128, 128, 8), (128, 128, 16)):
        yield Case(f"sgemm/{bm} x {bn} x {bk}", "matmul, SIMT",
                   cuda("sgemm_tiled", (m // bn, m // bm), bm * bn // 64, (*x, m, m, m), BM=bm,
                        BN=bn, BK=bk), flops=2 * m**3)  # fmt: skip


def _mma_sync() -> Iterator[Case]:
    m = 4096
    x = (f"bf16[{m},{m}]",) * 3
    for bm, bn, bk, stages, wm, wn, swizzle in (
        (64, 64, 32, 3, 2, 2, 1), (128, 64, 32, 3, 2, 2, 1), (128, 128, 32, 2, 2, 2, 1),
        (128, 128, 32, 3, 2, 2, 1), (128, 128, 32, 4, 2, 2, 1), (128, 128, 32, 4, 2, 4, 1),
        (128, 128, 64, 3, 2, 4, 1), (128, 128, 64, 2, 2, 4, 1), (128, 256, 32, 3, 2, 4, 1),
        (256, 128, 32, 3, 4, 2, 1), (128, 128, 32, 3, 2, 2, 0), (128, 128, 64, 3, 2, 4, 0),
    ):  # fmt: skip
        name = f"{bm} x {bn} x {bk}, {stages} stages, {wm * wn} warps{'' if swizzle else ', plain'}"
        yield Case(
            f"mma gemm/{name}", "gemm, mma.sync",
            cuda("mma_gemm", (m // bn, m // bm), wm * wn * 32, (*x, m, m, m),
                 stages * (bm + bn) * bk * 2, BM=bm, BN=bn, BK=bk, STAGES=stages, WM=wm, WN=wn,
                 SWIZZLE=swizzle), flops=2 * m**3,
        )  # fmt: skip
    for tile, threads, stages in (((64, 64, 32), 128, 3), ((128, 64, 32), 128, 3),
                                  ((128, 128, 32), 128, 3), ((128, 128, 32), 256, 2),
                                  ((128, 128, 32), 256, 3), ((128, 128, 64), 256, 3)):  # fmt: skip
        yield Case(
            f"mma tiles/{' x '.join(map(str, tile))}, {stages} stages, {threads} threads",
            "gemm, mma.sync",
            _tiles("tiled_gemm", m, m, m, m=tile[0], n=tile[1], k=tile[2], threads=threads,
                   stages=stages, module="gemm_kernels", configs={"tl.disable_wgmma": True}),
            x, flops=2 * m**3,
        )  # fmt: skip
    for bm, bn, bk, warps, stages in ((64, 64, 32, 4, 3), (128, 64, 32, 4, 4), (128, 128, 32, 4, 3),
                                      (128, 128, 32, 8, 4), (128, 128, 64, 8, 3)):  # fmt: skip
        yield Case(
            f"triton mma/{bm} x {bn} x {bk}, {stages} stages, {warps} warps", "gemm, mma.sync",
            triton("gemm", (m // bn, m // bm), (*x, m, m, m), warps, stages, 80, BM=bm, BN=bn,
                   BK=bk), flops=2 * m**3,
        )  # fmt: skip


def _wgmma() -> Iterator[Case]:
    m = 4096
    x = (f"bf16[{m},{m}]",) * 3
    shapes = [(64, 64, 128, 4), (64, 64, 128, 8), (64, 128, 128, 6), (64, 256, 128, 4),
              (128, 64, 256, 6), (128, 128, 256, 1), (128, 128, 256, 2), (128, 128, 256, 3),
              (128, 128, 256, 4), (128, 128, 256, 6), (128, 192, 256, 4), (128, 256, 256, 1),
              (128, 256, 256, 2), (128, 256, 256, 3), (256, 128, 256, 3), (256, 64, 256, 4),
              (128, 128, 128, 4)]  # fmt: skip
    for bm, bn, threads, stages in shapes:
        yield Case(
            f"wgmma tiles/{bm} x {bn}, {stages} stages, {threads} threads", "gemm, wgmma",
            _tiles("tiled_gemm", m, m, m, m=bm, n=bn, threads=threads, stages=stages,
                   module="gemm_kernels"), x, flops=2 * m**3,
        )  # fmt: skip
    for bm, bn, group in ((128, 256, 16), (256, 128, 12), (128, 128, 12)):
        yield Case(f"wgmma persistent/{bm} x {bn}", "gemm, wgmma",
                   _tiles("persistent_gemm", m, m, m, m=bm, n=bn, group=group,
                          module="gemm_kernels"), x, flops=2 * m**3)  # fmt: skip
    for size in (1024, 2048, 8192):
        y = (f"bf16[{size},{size}]",) * 3
        yield Case(f"wgmma {size}/128 x 256", "gemm, wgmma",
                   _tiles("tiled_gemm", size, size, size, module="gemm_kernels"), y,
                   flops=2 * size**3)  # fmt: skip
    for bm, bn, threads, stages in ((64, 32, 128, 12), (64, 64, 128, 10), (64, 128, 128, 8)):
        yield Case(
            f"wgmma 128 rows/{bm} x {bn}", "gemm, wgmma",
            _tiles("tiled_gemm", 128, m, m, m=bm, n=bn, threads=threads, stages=stages,
                   module="gemm_kernels"),
            (f"bf16[128,{m}]", x[0], f"bf16[128,{m}]"), flops=2 * 128 * m**2,
        )  # fmt: skip
    for dtype, short in (("float16", "f16"), ("float8_e4m3fn", "e4m3"), ("int8", "s8")):
        out, sums = ("int32", "int32") if dtype == "int8" else ("bfloat16", "float32")
        yield Case(
            f"wgmma {short}/128 x 256", "gemm, wgmma",
            _tiles("tiled_gemm", m, m, m, dtype=dtype, out_dtype=out, sums=sums,
                   staged=dtype != "int8", module="gemm_kernels"),
            (f"{short}[{m},{m}]",) * 2 + (f"{'s32' if dtype == 'int8' else 'bf16'}[{m},{m}]",),
            flops=2 * m**3,
        )  # fmt: skip
    yield Case("wgmma order/NN", "gemm, wgmma",
               _tiles("tiled_gemm", m, m, m, order="NN", module="gemm_kernels"), x,
               flops=2 * m**3)  # fmt: skip
    for bm, bn, bk, warps, stages in (
        (64, 64, 64, 4, 3), (64, 128, 64, 4, 3), (128, 128, 64, 4, 3), (128, 128, 64, 8, 3),
        (128, 128, 64, 8, 4), (128, 256, 64, 8, 3), (128, 256, 64, 8, 4), (128, 128, 32, 8, 4),
    ):  # fmt: skip
        yield Case(
            f"triton wgmma/{bm} x {bn} x {bk}, {stages} stages, {warps} warps", "gemm, wgmma",
            triton("gemm", (m // bn, m // bm), (*x, m, m, m), warps, stages, BM=bm, BN=bn, BK=bk),
            flops=2 * m**3,
        )  # fmt: skip


def _flash(length: int, dim: int, causal: bool, lazy: bool, tiles: tuple[int, ...]) -> Any:
    def make() -> Any:
        import attention_forward as forward

        import tilelang

        shape = forward.Shape(2, length, length, 16, 16, dim, dim)
        function = forward.attention(shape, causal, "bfloat16", *tiles, lazy=lazy)
        return tilelang.compile(function, target=TARGET, pass_configs=forward.PASS_CONFIGS)

    return make


def _attention() -> Iterator[Case]:
    length = 4096
    tiles = {
        128: [(192, 80, 384, 2), (128, 128, 256, 2), (128, 64, 256, 2), (128, 128, 256, 1),
              (64, 128, 128, 2), (64, 64, 128, 2)],
        64: [(192, 128, 384, 2), (128, 128, 256, 2), (128, 64, 256, 3)],
    }  # fmt: skip
    for dim, choices in tiles.items():
        q = f"bf16[2,{length},16,{dim}]"
        flops = 4.0 * 32 * length**2 * dim
        for causal in (False, True):
            for tile in choices:
                for lazy in (False, True)[: 2 if tile[0] == 192 else 1]:
                    name = f"{tile[0]} x {tile[1]}, {tile[3]} stages{', lazy' if lazy else ''}"
                    yield Case(
                        f"attention {dim}{' causal' if causal else ''}/{name}", "attention",
                        _flash(length, dim, causal, lazy, tile),
                        (q, q, q, q, f"f32[2,16,{length}]"), flops=flops / (1 + causal),
                    )  # fmt: skip
    for dim, bm, bn, warps, stages, causal in (
        (64, 128, 64, 4, 3, 0), (64, 128, 64, 4, 3, 1), (128, 128, 64, 8, 2, 0),
        (128, 128, 64, 8, 3, 1), (128, 128, 128, 8, 2, 0), (64, 64, 64, 4, 3, 0),
    ):  # fmt: skip
        q = f"bf16[32,{length},{dim}]"
        yield Case(
            f"triton attention {dim}{' causal' if causal else ''}/{bm} x {bn}, {stages} stages",
            "attention",
            triton("attention", (length // bm, 32), (q, q, q, q, length, 0.18), warps, stages,
                   BM=bm, BN=bn, DIM=dim, CAUSAL=causal),
            flops=4.0 * 32 * length**2 * dim / (1 + causal),
        )  # fmt: skip


def cases() -> list[Case]:
    """All cases."""
    parts = (_elementwise, _arithmetic, _accesses, _transposes, _rows, _simt, _mma_sync, _wgmma,
             _attention)  # fmt: skip
    return [case for part in parts for case in part()]


def fitted() -> set[str]:
    """The names that the model's figures may be fitted to."""
    lines = (_HERE / "timing_split.txt").read_text().splitlines()
    return {line.strip() for line in lines if line.strip() and not line.startswith("#")}
