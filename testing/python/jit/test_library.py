"""Exported libraries: what they ask of the driver, from C++; on a GPU, their results."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tvm_ffi
import tvm_ffi.libinfo
from transform.odd_rows import program

import tilelang
import tilelang.language as T
from tilelang.errors import ConfigError
from tilelang.jit import library
from tilelang.target import device_target

HERE = Path(__file__).parent
N = T.dynamic("N")


def affine(target: str):
    """Z = X * a + Y by rows, in tiles of 4 x 32."""

    @T.prim_func
    def affine(
        X: T.Tensor((T.dynamic("M"), N), "float32"),
        Y: T.Tensor((N,), "float32"),
        a: T.float32,
        Z: T.Tensor((T.dynamic("M"), N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, 32), T.ceildiv(X.shape[0], 4), threads=128) as (bx, by):
            tile = T.alloc_fragment((4, 32), "float32")
            T.copy(X[by * 4, bx * 32], tile)
            for i, j in T.Parallel(4, 32):
                tile[i, j] = tile[i, j] * a + Y[bx * 32 + j]
            T.copy(tile, Z[by * 4, bx * 32])

    return tilelang.compile(affine, target=target)


def build(source: Path, output: Path, *options: str) -> Path:
    line = ["g++", "-std=c++20", str(source), "-o", str(output), *options]
    subprocess.run(line, check=True)
    return output


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Libraries for two targets, and the program that calls them."""
    folder = tmp_path_factory.mktemp("exported")
    for target in ("sm_80", "sm_90a"):
        affine(target).export_library(folder / f"{target}.so")
    libraries = Path(tvm_ffi.libinfo.find_libtvm_ffi()).parent
    include = [f"-I{each}" for each in tvm_ffi.libinfo.include_paths()]
    build(HERE / "exported_caller.cc", folder / "caller", *include, f"-L{libraries}", "-ltvm_ffi",
          f"-Wl,-rpath,{libraries}")  # fmt: skip
    return folder


def call(
    folder: Path,
    name: str,
    *sizes: int,
    capability: int,
    function: str = "affine",
    in_place: bool = False,
) -> list[str]:
    """What the driver of a GPU of some capability is asked, line by line, or the error.

    ``in_place``: the last tensor lies in the memory of the first one.
    """
    driver = folder / f"{capability}{function}"
    driver.mkdir(exist_ok=True)
    arguments = 3 if function == "affine" else 0  # of each launch
    build(HERE / "exported_driver.cc", driver / "libcuda.so.1", "-shared", "-fPIC",
          f"-DCAPABILITY={capability}", f"-DARGUMENTS={arguments}")  # fmt: skip
    libraries = Path(tvm_ffi.libinfo.find_libtvm_ffi()).parent
    line = [str(folder / "caller"), str(folder / f"{name}.so"), function, *map(str, sizes)]
    path = f"{driver}:{libraries}"
    env = {**os.environ, "LD_LIBRARY_PATH": path, **({"IN_PLACE": "1"} if in_place else {})}
    done = subprocess.run(line, env=env, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(("rows", "columns"), [(4, 32), (5, 60), (1, 4)])
def test_a_program_in_cpp_launches_without_the_compiler(folder, rows: int, columns: int) -> None:
    for target, capability in (("sm_80", 86), ("sm_90a", 90)):
        lines = call(folder, target, rows, columns, capability=capability)
        assert lines[0] == "image 1" and lines[1] == "kernel affine_kernel", lines
        grid = f"launch grid {-(-columns // 32)} {-(-rows // 4)} 1 block 128 1 1"
        assert lines[-1].startswith(grid), lines
        assert "10000" in lines[-1].split(), lines


def test_a_library_refuses_another_gpu(folder) -> None:
    for target, capability in (("sm_90a", 100), ("sm_80", 90)):
        (line,) = call(folder, target, 4, 32, capability=capability)
        assert line.startswith("tilelang.TargetError") and "cuda:0 has" in line


def test_a_library_refuses_sizes_that_its_kernel_cannot_hold(folder) -> None:
    (line,) = call(folder, "sm_80", 2**31 + 4, 32, capability=80)
    assert line.startswith("tilelang.ArgumentError: argument 'X': the extent 2147483652")
    assert "does not fit the dtype of 'M'" in line


def test_an_empty_grid_launches_nothing(folder) -> None:
    assert not any(
        line.startswith("launch") for line in call(folder, "sm_80", 0, 32, capability=80)
    )


def test_a_library_allocates_what_is_between_its_launches(folder) -> None:
    """Of a gemm: copies of tensors whose rows are no multiple of 16 bytes apart."""
    gemm = program(rows=200, columns=256, depth=T.dynamic("K"), dtype="float32", order="NT")
    tilelang.compile(gemm, target="sm_90a").export_library(folder / "gemm.so")

    def asked(depth: int) -> list[str]:
        lines = call(folder, "gemm", 200, 256, depth, capability=90, function="main")
        kinds = ("allocate", "map 7 0x", "launch grid", "free")
        return [" ".join(each.split()[:3]) for each in lines if each.startswith(kinds)]

    whole = asked(76)  # nothing is copied
    assert [each for each in whole if "map" not in each] == ["launch grid 8"]
    assert "map 7 0x10000" in whole and "map 7 0x20000" in whole
    odd = asked(77)  # rows of 96
    assert odd[:2] == [f"allocate {200 * 96 * 4}", f"allocate {256 * 96 * 4}"]
    assert odd[2] == f"launch grid {200 // 4 + 256 // 4}"
    assert odd.count("map 7 0x70000") == 2 and odd[-3:] == ["launch grid 8", "free", "free"]


def test_a_library_holds_a_variant_for_tensors_that_overlap(folder) -> None:
    """It loads nothing by the tensor memory accelerator, ahead of stores."""
    gemm = program(rows=200, columns=256, depth=76, dtype="float32", order="NT")
    tilelang.compile(gemm, target="sm_90a").export_library(folder / "twice.so")
    options = {"capability": 90, "function": "main"}
    apart = call(folder, "twice", 200, 256, 76, **options)
    assert any(line.startswith("map") for line in apart)
    in_place = call(folder, "twice", 200, 256, 76, **options, in_place=True)
    assert not any(line.startswith("map") for line in in_place)
    launches = [line for line in in_place if line.startswith("launch")]
    assert len(launches) == 1 and launches[0].startswith("launch grid 4 4 1")
    assert "overlapping" not in library.source_of(tilelang.compile(one_tensor, target="sm_80"))


@T.prim_func
def one_tensor(X: T.Tensor((8,), "int32")):
    """Of one tensor there is nothing that it could overlap."""
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            X[i] = X[i] + 1


def test_memory_that_is_zero_between_calls_is_refused(tmp_path: Path) -> None:
    @T.prim_func
    def counts(X: T.Tensor((8,), "int32")):
        seen = T.alloc_global((1,), "int32", zeroed=True)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                X[i] = seen[0]

    with pytest.raises(ConfigError, match="zero between calls"):
        tilelang.compile(counts, target="sm_80").export_library(tmp_path / "k.so")


def test_python_loads_it_and_is_told_what_is_wrong(folder) -> None:
    function = tvm_ffi.load_module(str(folder / "sm_80.so"))["affine"]
    x = np.zeros((4, 32), np.float32)
    with pytest.raises(Exception, match="argument 'X': a tensor on a GPU is expected"):
        function(*map(tvm_ffi.from_dlpack, (x, x[0])), 2.0, tvm_ffi.from_dlpack(x.copy()))
    with pytest.raises(TypeError):
        function(1)


def test_the_source_stands_alone(tmp_path: Path) -> None:
    affine("sm_80").export_host_source(tmp_path / "affine.cc")
    include = [f"-I{each}" for each in tvm_ffi.libinfo.include_paths()]
    build(tmp_path / "affine.cc", tmp_path / "affine.so", "-fPIC", "-shared", "-O0", *include)
    assert "affine" in (tmp_path / "affine.cc").read_text()


def test_what_cannot_be_exported(tmp_path: Path, monkeypatch) -> None:
    @T.prim_func
    def strided(X: T.StridedTensor((8, 8), (16, 1), "float32")):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(8, 8):
                X[i, j] = 1.0

    with pytest.raises(ConfigError, match="'X' has strides"):
        tilelang.compile(strided, target="sm_80").export_library(tmp_path / "k.so")
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ConfigError, match="C\\+\\+ compiler"):
        affine("sm_80").export_library(tmp_path / "k.so")


@pytest.mark.requires_cuda
def test_results_on_a_gpu(tmp_path: Path) -> None:
    import torch

    affine(str(device_target())).export_library(tmp_path / "k.so")
    function = tvm_ffi.load_module(str(tmp_path / "k.so"))["affine"]
    for rows, columns in ((1, 4), (5, 60), (333, 1000)):
        x, y = torch.randn(rows, columns, device="cuda"), torch.randn(columns, device="cuda")
        z = torch.full_like(x, float("nan"))
        function(x, y, 2.5, z)
        torch.testing.assert_close(z, x * 2.5 + y)
