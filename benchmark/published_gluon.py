"""Predicts kernels of Triton's Gluon tutorials, whose comments state figures; run by published.py.

    python benchmark/published_gluon.py --tutorials FOLDER --list | NAME ...

FOLDER is ``python/tutorials/gluon`` of a checkout of triton-lang/triton. Nothing of it is part of
this package: the kernels are imported from there, and Triton compiles them without a GPU. For each
name a line of JSON is printed: microseconds and what is busy, or why there is no prediction. The
figures are those of a GB200, and of an H100, for which the model's H200 stands: kernels that
memory bounds are left out there. Figures that the tutorials call TB/s are 2^40 bytes a second where
they count bytes in 2^30.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from tilelang.emulator import TimingOptions, as_cuda, options
from tilelang.emulator.clock import Clock, ticking

ARCHS = {"GB200": "sm_100a", "H100": "sm_90a"}
DEVICES = {"GB200": "GB200", "H100": "H200"}
_RENAMED = (
    (r"^benchmark_\w+\(\)$", "pass"),
    (r"target\.is_cuda_backend\(\)", 'target.backend == "cuda"'),
    (r"async_copy_global_to_shared\b", "async_load"),
    (r"async_copy_shared_to_global\b", "async_store"),
)
_BIG, _WIDE = 2**31, 2**15
_FORMATS = ("mxfp8 x mxfp8", "mxfp4 x mxfp4", "mxfp8 x mxfp4", "nvfp4 x nvfp4")


@dataclass(frozen=True)
class Case:
    """A figure of a tutorial: name, GPU and microseconds, and what makes a call of the kernel."""

    name: str
    gpu: str
    us: float
    make: Callable[[Any], Callable[[], Any]]


class Tutorials:
    """The tutorials of a folder as modules, by the names of Triton 3.9; no benchmark runs."""

    def __init__(self, folder: Path, copies: Path) -> None:
        self._folder, self._copies = folder, copies
        self._loaded: dict[str, types.ModuleType] = {}

    def __call__(self, start: str) -> types.ModuleType:
        """Returns the tutorial whose file begins like this: ``"07"``."""
        if start in self._loaded:
            return self._loaded[start]
        path = next(self._folder.glob(f"{start}-*.py"))
        text = path.read_text()
        for needed in re.findall(r'import_module\("(\d\d)-', text):
            self(needed)
        for pattern, now in _RENAMED:
            text = re.sub(pattern, now, text, flags=re.M)
        # Triton reads the source of a kernel from its file.
        copy = self._copies / path.name
        copy.write_text(text)
        spec = importlib.util.spec_from_file_location(path.stem, copy)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = self._loaded[start] = module
        spec.loader.exec_module(module)
        return module


def _f32(*shape: int) -> torch.Tensor:
    return torch.empty(*shape, device="cuda")


def _f16(*shape: int) -> torch.Tensor:
    return torch.empty(*shape, device="cuda", dtype=torch.float16)


def _us(tflops: float, m: int, n: int, k: int) -> float:
    return 2 * m * n * k / tflops / 1e6


def _copy_us(tib: float, elements: int, tensors: int = 2) -> float:
    return 4 * tensors * elements / 2**40 / tib * 1e6


def _copies() -> Iterator[Case]:
    """Yields copies of tutorials 1 and 2."""
    yield Case("01-memcpy/2048", "GB200", 24000.0,
               lambda t: partial(t("01").memcpy, _f32(_BIG), _f32(_BIG), 2048))  # fmt: skip
    table = {
        1024: (6.566, 6.548, 6.542, 6.550, 5.226), 2048: (6.574, 6.476, 6.474, 6.502, 6.214),
        4096: (6.554, 6.492, 6.454, 6.396, 6.182), 8192: (6.606, 6.532, 6.482, 6.478, 6.176),
        16384: (6.522, 6.556, 6.486, 6.510, 6.146),
    }  # fmt: skip

    def line(block: int, r: int) -> Callable[[Any], Callable[[], Any]]:
        def make(t: Any) -> Callable[[], Any]:
            layout = t("02").gl.BlockedLayout([r], [32], [4], [0])
            return partial(t("02").memcpy_1d_impl, _f32(_BIG), _f32(_BIG), block, layout, 4)

        return make

    for block, row in table.items():
        for power, tib in enumerate(row):
            yield Case(f"02-memcpy_1d/{block} R={2**power}", "GB200", _copy_us(tib, _BIG),
                       line(block, 2**power))  # fmt: skip


def _planes() -> Iterator[Case]:
    """Yields copies of two dimensions of tutorial 2."""

    def plane(rows: bool, given: Callable[[], Any], result: Callable[[], Any]) -> Any:
        def make(t: Any) -> Callable[[], Any]:
            gl = t("02").gl
            layout = (
                gl.BlockedLayout([1, 1], [1, 32], [1, 4], [1, 0])
                if rows
                else gl.BlockedLayout([1, 1], [32, 1], [4, 1], [0, 1])
            )
            block = (1, 2048) if rows else (2048, 1)
            return partial(t("02").memcpy_2d_impl, given(), result(), *block, layout, 4)

        return make

    def whole() -> torch.Tensor:
        return _f32(_WIDE, 2 * _WIDE)

    def turned() -> torch.Tensor:
        return whole().T

    def every_other() -> torch.Tensor:
        return whole()[::2]

    def square() -> torch.Tensor:
        return _f32(_WIDE, _WIDE)

    half = _BIG // 2
    for name, tib, elements, rows, given, result in (
        ("rows", 6.260, _BIG, True, whole, whole),
        ("rows of a transposed", 0.774, _BIG, True, turned, turned),
        ("columns of a transposed", 6.590, _BIG, False, turned, turned),
        ("every other row", 6.258, half, True, every_other, lambda: _f32(_WIDE // 2, 2 * _WIDE)),
        ("every other row, transposed", 6.398, half, False, lambda: every_other().T,
         lambda: _f32(_WIDE // 2, 2 * _WIDE).T),
        ("into a transposed, rows", 0.978, half, True, square, lambda: square().T),
        ("into a transposed, columns", 1.674, half, False, square, lambda: square().T),
    ):  # fmt: skip
        yield Case(f"02-memcpy_2d/{name}", "GB200", _copy_us(tib, elements),
                   plane(rows, given, result))  # fmt: skip
    yield Case("02-memcpy_2d_inout/128x128", "GB200", _copy_us(4.814, half),
               lambda t: partial(t("02").memcpy_2d_inout, square(), square().T))  # fmt: skip


def _sums() -> Iterator[Case]:
    """Yields sums of two tensors of tutorials 3, 4 and 8."""

    def add(start: str, function: str, *rest: Any, smem: bool = False) -> Any:
        def make(t: Any) -> Callable[[], Any]:
            module = t(start)
            a, b, c = (_f32(_WIDE, _WIDE) for _ in range(3))
            layout = [module.gl.SwizzledSharedLayout(1, 1, 1, order=[1, 0])] if smem else []
            return partial(getattr(module, function), a, b, c, *layout, *rest)

        return make

    for name, tib, make in (
        ("03-elementwise_add", 1.48, add("03", "elementwise_add")),
        ("03-elementwise_add_cpasync", 3.97, add("03", "elementwise_add_cpasync", smem=True)),
        ("03-elementwise_add_pipelined/2", 4.20, add("03", "elementwise_add_pipelined", 32, 64, 2)),
        ("03-elementwise_add_pipelined/3", 4.20, add("03", "elementwise_add_pipelined", 32, 64, 3)),
        ("04-elementwise_add_tma/32x64x2", 5.50, add("04", "elementwise_add_tma", 32, 64, 2)),
        ("04-elementwise_add_tma/64x128x3", 5.90, add("04", "elementwise_add_tma", 64, 128, 3)),
        ("08-elementwise_add_warp_specialized", 5.98,
         add("08", "elementwise_add_warp_specialized", 64, 128, 3, 1, 4)),
    ):  # fmt: skip
        yield Case(name, "GB200", _copy_us(tib, _WIDE**2, 3), make)


def _operands(m: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return _f16(m, k), _f16(k, n), _f16(m, n)


def _blocked_gemms() -> Iterator[Case]:
    """Yields GEMMs of tutorials 5 and 6: a tile a block."""
    shape = (8192, 8192, 16384)

    def gemm(start: str, function: str, *rest: Any) -> Any:
        return lambda t: partial(getattr(t(start), function), *_operands(*shape), *rest)

    def small(in_register: bool, n: int) -> Any:
        return lambda t: partial(t("05").small_mma, _f16(64, 128), _f16(128, 128), _f32(64, 128),
                                 _f32(64, 128), n, in_register, 4)  # fmt: skip

    times = (9.47, 8.48, 8.32, 8.32, 9.32, 8.60, 8.37, 8.36)
    for i, us in enumerate(times):
        n = (16, 32, 64, 128)[i % 4]
        yield Case(f"05-small_mma/{'register' if i > 3 else 'shared'} N={n}", "H100", us,
                   small(i > 3, n))  # fmt: skip
    tables: tuple[tuple[str, str, str, tuple[tuple[int, ...], ...], tuple[float, ...]], ...] = (
        ("05", "blocked_matmul", "H100",
         ((128, 256, 256, 8), (256, 128, 256, 8), (64, 256, 128, 4), (64, 128, 256, 4),
          (128, 128, 128, 4), (128, 128, 128, 8)),
         (412.14, 387.74, 474.03, 355.60, 441.88, 380.08)),
        ("05", "blocked_matmul_pipelined", "H100",
         ((128, 256, 128, 8), (256, 128, 128, 8), (64, 256, 64, 4), (64, 128, 128, 4),
          (128, 128, 64, 4), (128, 128, 64, 8), (64, 256, 128, 4)),
         (426.06, 385.85, 417.50, 384.98, 495.31, 446.81, 363.36)),
        ("06", "blocked_matmul", "GB200",
         ((64, 64, 64, 4), (64, 64, 128, 4), (64, 64, 256, 4), (128, 128, 64, 4),
          (128, 128, 128, 4), (128, 128, 256, 4)),
         (671.77, 660.93, 526.10, 898.61, 1019.46, 563.13)),
        ("06", "blocked_matmul_pipelined", "GB200",
         ((128, 128, 64, 4), (128, 128, 64, 8), (128, 128, 128, 4), (128, 128, 128, 8)),
         (1000.51, 1113.49, 1040.27, 1011.47)),
    )  # fmt: skip
    for start, function, gpu, tiles, figures in tables:
        for (*tile, warps), tflops in zip(tiles, figures, strict=True):
            rest = [*tile, *([False] if function == "blocked_matmul" else []), warps]
            yield Case(f"{start}-{function}/{'x'.join(map(str, tile))} w{warps}", gpu,
                       _us(tflops, *shape), gemm(start, function, *rest))  # fmt: skip


def _persistent(
    function: str, k: int, *rest: Any, group: int = 0, start: str = "07"
) -> Callable[[Any], Callable[[], Any]]:
    """Makes a call of tutorial 7 or 8 with its scheduler, that of groups if ``group`` says so."""

    def make(t: Any) -> Callable[[], Any]:
        module = t("07")
        scheduler = (
            module.GroupedPersistentTileScheduler(group)
            if group
            else module.PersistentTileScheduler
        )
        more = () if function == "matmul_pipelined" else (scheduler,)
        return partial(
            getattr(t(start), function), *_operands(8192, 8192, k), 128, 256, *rest, *more
        )

    return make


def _pipelined_gemms() -> Iterator[Case]:
    """Yields GEMMs of tutorial 7 by blocks of K, buffers, warps and groups of tiles."""
    shape = (8192, 8192, 16384)
    tables = {
        "matmul_pipelined": (735.96, 697.97, 1054.00, 973.94, 1175.70, 1072.83),
        "persistent_matmul": (712.25, 686.64, 1032.16, 938.81, 1142.26, 1071.46),
    }
    hopper = {
        "matmul_pipelined": (489.26, 673.67, 669.16),
        "persistent_matmul": (502.84, 661.11, 658.84),
    }
    stages = ((128, 2), (64, 3), (64, 4))
    for function, figures in tables.items():
        for i, tflops in enumerate(figures):
            (block, buffers), warps = stages[i // 2], (4, 8)[i % 2]
            yield Case(f"07-{function}/{block}x{buffers} w{warps}", "GB200", _us(tflops, *shape),
                       _persistent(function, shape[2], block, buffers, warps))  # fmt: skip
        for (block, buffers), tflops in zip(stages, hopper[function], strict=True):
            yield Case(f"07-{function}/{block}x{buffers} w8 H100", "H100", _us(tflops, *shape),
                       _persistent(function, shape[2], block, buffers, 8))  # fmt: skip
    for group, (grace, h100) in {
        1: (1025.11, 649.09), 2: (1050.43, 651.32), 4: (1032.71, 655.51), 6: (1057.27, 652.39),
        8: (1179.94, 648.42),
    }.items():  # fmt: skip
        yield Case(f"07-grouped/{group}", "GB200", _us(grace, *shape),
                   _persistent("persistent_matmul", shape[2], 64, 4, 4, group=group))  # fmt: skip
        yield Case(f"07-grouped/{group} H100", "H100", _us(h100, *shape),
                   _persistent("persistent_matmul", shape[2], 64, 3, 8, group=group))  # fmt: skip


def _depths() -> Iterator[Case]:
    """Yields GEMMs of tutorials 7, 8 and 14 of 8192 x 8192 by K."""
    functions = ("matmul_pipelined", "persistent_matmul", "persistent_matmul_pipelined")
    table = {
        512: (615.86, 828.70, 993.50), 1024: (997.16, 1077.28, 1173.31),
        2048: (1152.74, 1190.55, 1133.37), 4096: (1164.05, 1120.92, 1143.47),
        8192: (1160.93, 1074.97, 1185.40), 16384: (1185.62, 1096.34, 1296.93),
    }  # fmt: skip
    hopper = {
        512: (491.74, 485.01, 539.88), 1024: (554.24, 575.02, 602.52),
        2048: (573.87, 594.72, 625.91), 4096: (609.36, 630.10, 640.48),
        8192: (629.44, 646.22, 661.57), 16384: (653.79, 660.29, 670.00),
    }  # fmt: skip
    for k in table:
        for function, grace, h100 in zip(functions, table[k], hopper[k], strict=True):
            yield Case(f"07-{function}/K={k}", "GB200", _us(grace, 8192, 8192, k),
                       _persistent(function, k, 64, 4, 4, group=8))  # fmt: skip
            yield Case(f"07-{function}/K={k} H100", "H100", _us(h100, 8192, 8192, k),
                       _persistent(function, k, 64, 3, 8))  # fmt: skip
    specialized = (1004.18, 1182.61, 1313.71, 1317.58, 1291.56, 1256.74)
    clusters = (1096.31, 1306.07, 1379.80, 1444.26, 1302.33, 1292.40)
    for k, tflops, multi in zip(table, specialized, clusters, strict=True):
        roles = _persistent("matmul_warp_specialized", k, 64, 4, 4, 4, group=8, start="08")
        yield Case(f"08-matmul_warp_specialized/K={k}", "GB200", _us(tflops, 8192, 8192, k), roles)
        yield Case(f"14-matmul_multicta/K={k}", "GB200", _us(multi, 8192, 8192, k), _multicta(k))


def _multicta(k: int) -> Callable[[Any], Callable[[], Any]]:
    def make(t: Any) -> Callable[[], Any]:
        a, b, c = _operands(8192, 8192, k)
        return partial(t("14").matmul_multicta, a, b, out=c)

    return make


def _quantized(rows: int, depth: int, kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Makes zeros of a format, and their scales in rows."""
    block = 16 if kind == "nvfp4" else 32
    packed = depth if kind == "mxfp8" else depth // 2
    values = torch.zeros(rows, packed, dtype=torch.uint8, device="cuda")
    scales = torch.zeros(rows, depth // block, dtype=torch.uint8, device="cuda")
    return (
        values.view(torch.float8_e4m3fn) if kind == "mxfp8" else values,
        scales.view(torch.float8_e4m3fn) if kind == "nvfp4" else scales,
    )


def _scaled_gemms() -> Iterator[Case]:
    """Yields GEMMs with factors of tutorial 11, of 8192 cubed."""
    tables = {
        "simple_mma_scaled": (33.41, 67.02, 34.60, 70.84),
        "mma_scaled_contig": (663.28, 1435.05, 741.82, 1303.69),
        "mma_scaled_packed_block": (900.97, 2081.76, 1000.48, 2002.05),
        "mma_scaled_tcgen05_copy": (929.07, 2147.76, 1035.60, 2092.39),
        "mma_scaled_pipelined_kernel": (2018.58, 3916.62, 2144.05, 3842.19),
        "mma_scaled_warp_specialized_kernel": (2378.49, 4870.97, 2615.73, 4846.83),
    }

    def make(function: str, formats: str) -> Callable[[Any], Callable[[], Any]]:
        def prepare(t: Any) -> Callable[[], Any]:
            module = t("11")
            kinds = formats.split(" x ")
            (a, sa), (b, sb) = (_quantized(8192, 8192, kind) for kind in kinds)
            vector = 16 if kinds[0] == "nvfp4" else 32
            depth = 256 if "fp8" not in formats else 128
            if function == "mma_scaled_contig":
                sa = module.relayout_scales_contiguous(sa, 128, depth, vector)
                sb = module.relayout_scales_contiguous(sb, 256, depth, vector)
            elif function != "simple_mma_scaled":
                sa, sb = (module.swizzle_scales_packed_block(each, vector) for each in (sa, sb))
            if function.endswith("_kernel"):
                return partial(module.mma_scaled, a, b, sa, sb, vector, getattr(module, function))
            return partial(
                getattr(module, function), a, b, sa, sb, vector,
                BLOCK_M=128, BLOCK_N=256, BLOCK_K=depth,
            )  # fmt: skip

        return prepare

    for function, figures in tables.items():
        for formats, tflops in zip(_FORMATS, figures, strict=True):
            yield Case(f"11-{function}/{formats}", "GB200", _us(tflops, 8192, 8192, 8192),
                       make(function, formats))  # fmt: skip


def _others() -> Iterator[Case]:
    """Yields cluster launch control of tutorial 12, and the softmax of tutorial 14."""
    for name, tflops, takes_over in (("static", 1040.13, False), ("clc", 1080.74, True)):

        def make(t: Any, takes_over: bool = takes_over) -> Callable[[], Any]:
            kernel = t("12").run_matmul_kernel
            return partial(kernel, *_operands(8192, 8192, 8192), use_clc=takes_over)

        yield Case(f"12-matmul/{name}", "GB200", _us(tflops, 8192, 8192, 8192), make)
    for rows, power, gbs in (
        (15, 8, 3661.46), (15, 9, 6746.45), (15, 10, 6740.50), (15, 11, 6920.01),
        (15, 12, 7065.25), (15, 13, 7136.76), (15, 14, 7157.74), (15, 15, 6545.11),
        (15, 16, 6057.26), (14, 17, 5468.66), (13, 18, 4736.15),
    ):  # fmt: skip
        shape = (2**rows, 2**power)

        def softmax(t: Any, shape: tuple[int, int] = shape) -> Callable[[], Any]:
            return partial(t("14").multicta_softmax_f32, _f32(*shape), _f32(*shape))

        yield Case(f"14-softmax/{shape[0]}x{shape[1]}", "GB200",
                   8 * 2 ** (rows + power) / gbs / 1e3, softmax)  # fmt: skip


def cases() -> dict[str, Case]:
    """Returns every figure, by ``gluon/`` and its name."""
    makers = (_copies, _planes, _sums, _blocked_gemms, _pipelined_gemms, _depths, _scaled_gemms,
              _others)  # fmt: skip
    return {f"gluon/{case.name}": case for maker in makers for case in maker()}


def predict(name: str, case: Case, tutorials: Tutorials) -> dict[str, Any]:
    """Returns what is known of a case: its grids, or what went wrong."""
    row: dict[str, Any] = {"name": name, "grids": []}  # `seconds` are those of the processor
    clock = Clock(sampled=True)
    clock.timing = TimingOptions(sampled=True, alone=True, record=False)
    add = clock.add

    def note(timing: Any) -> None:
        shares = dict(zip(timing.engine_name, timing.engine_share.tolist(), strict=True))
        row["grids"].append({
            "kernel": timing.kernel, "us": timing.grid_us, "clock": timing.power_factor,
            "dram_mb": round(timing.dram_bytes / 1e6, 2), "ctas": timing.ctas,
            "timed": timing.timed_ctas,
            "busy": {key: round(share, 3) for key, share in shares.items() if share > 0.1},
        })  # fmt: skip
        add(timing)

    clock.add = note  # type: ignore[method-assign]
    begin = time.monotonic()
    try:
        call = case.make(tutorials)
        with ticking(clock):
            call()
            row["wall"] = round(time.monotonic() - begin, 1)
            clock.us, row["grids"] = 0.0, []
            processor = time.process_time()
            call()  # the first one compiles
        row["us"] = clock.us
        row["seconds"] = round(time.process_time() - processor, 2)
    except Exception as error:  # the next one may do
        row["error"] = f"{type(error).__name__}: {str(error).strip()[:300]}"
    return row


def main() -> None:
    """Prints a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--tutorials", type=Path, required=True)
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    known = cases()
    if given.list:
        for name, case in known.items():
            print("ROW " + json.dumps({"name": name, "published_us": case.us, "gpu": case.gpu}))
        return
    from triton._C.libtriton import nvidia

    for gpu, arch in ARCHS.items():
        names = [name for name in given.names if known[name].gpu == gpu]
        if not names:
            continue
        with (
            tempfile.TemporaryDirectory() as copies,
            as_cuda(arch, gpu=DEVICES[gpu]),
            options(sanitize=False, progress=False, lint=()),
            mock.patch.object(nvidia, "cublas", mock.MagicMock(), create=True),
        ):
            tutorials = Tutorials(given.tutorials, Path(copies))
            for name in names:
                print("ROW " + json.dumps(predict(name, known[name], tutorials)), flush=True)


if __name__ == "__main__":
    main()
