"""Names that mean something in CUDA C++: every one of them can name anything in a kernel."""

from __future__ import annotations

import functools
import keyword
import re
from pathlib import Path

import numpy as np
import pytest

import tilelang
from tilelang.runtime import nvrtc

WORDS = """
    alignas alignof and_eq asm auto bitand bitor bool case catch char char8_t char16_t char32_t
    co_await co_return co_yield compl concept const const_cast consteval constexpr constinit
    decltype default delete do double dynamic_cast enum explicit export extern false float friend
    goto inline int long mutable namespace new noexcept not_eq nullptr operator or_eq private
    protected public register reinterpret_cast requires short signed sizeof static static_assert
    static_cast struct switch template this thread_local throw true typedef typeid typename typeof
    union unsigned using virtual void volatile wchar_t xor xor_eq override final import module
    restrict noinline global shared device host managed half size_t ptrdiff_t
    NULL EOF CHAR_BIT INT_MAX M_PI HUGE_VAL INFINITY NAN assert errno stdin stdout stderr linux unix
    i386 va_arg va_start va_end va_copy offsetof TRUE FALSE
    threadIdx blockIdx blockDim gridDim warpSize dim3 uint3 uint4 float4 int2 longlong2 double2
    printf malloc free memcpy memset clock abs min max exp expf sqrt rsqrtf sin cosf floor ceil
    round fmaf pow log2f erf j0 y1 signbit isnan isinf isfinite atomicAdd __syncthreads __ldg
    __shared__ __global__ __device__ __restrict__ __launch_bounds__ __CUDA_ARCH__ __LINE__ __FILE__
    __cplusplus __COUNTER__ __NVCC__ __func__ _Bool _Pragma _Complex _Static_assert __int128
    tl smem half_t bfloat16_t fp8_e4_t fp8_e5_t int8_t uint64_t CUtensorMap TL_DEVICE block_index
    vec chunk load store shfl reinterpret floordiv std cuda cub cute nv
    A_vec B_vec lane i i_1 v__ v_TL_DEVICE u03b1 α β_1 名前 e\u0301té ｆｕｌｌ
"""
SOURCES = Path(__file__).parents[3] / "src"


@functools.cache
def predefined_macros() -> list[str]:
    """The macros that NVRTC defines by itself and through our headers, found by asking for every
    identifier that occurs in its library."""
    import nvidia

    texts = [
        path.read_bytes()
        for root in nvidia.__path__
        for path in Path(root).glob("cu*/lib/libnvrtc-builtins.so*")
    ]
    texts += [path.read_bytes() for path in Path(nvrtc.template_root()).rglob("cuda/*.h")]
    found = {word for text in texts for word in re.findall(rb"[A-Za-z_]\w{1,60}", text)}
    words = sorted(word.decode() for word in found)
    headers = "".join(
        f"#include <tl_templates/cuda/{name}.h>\n" for name in ("common", "math", "float8", "warp")
    )
    asked = "".join(f"#ifdef {word}\n#warning @@{word}@@\n#endif\n" for word in words)
    try:
        log = nvrtc.compile_cuda(headers + asked, "sm_100a").log
    except tilelang.errors.InternalError as error:
        log = str(error)
    return sorted(set(re.findall(r"@@(\w+)@@", log)))


def usable(words: list[str]) -> list[str]:
    """Those that Python takes for names, each once as Python reads them."""
    import unicodedata

    normal = (unicodedata.normalize("NFKC", word) for word in words)
    return [w for w in dict.fromkeys(normal) if w.isidentifier() and not keyword.iskeyword(w)]


def load(folder: Path, name: str, text: str) -> dict:
    path = folder / f"{name}.py"
    path.write_text("import tilelang.language as T\n" + text, encoding="utf-8")
    scope: dict = {"__name__": name}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), scope)
    return scope


def local_names(folder: Path, names: list[str]) -> np.ndarray:
    """Runs a kernel whose variables have the names; variable n adds its number to B[n]."""
    lines = "".join(f"        {n} = A[{i}] + {i}\n" for i, n in enumerate(names))
    stores = "".join(f"        B[{i}] = {n}\n" for i, n in enumerate(names))
    text = (
        "@T.prim_func\n"
        f"def main(A: T.Tensor(({len(names)},), 'int32'), B: T.Tensor(({len(names)},), 'int32')):\n"
        f"    with T.Kernel(1, threads=1):\n{lines}{stores}"
    )
    kernel = tilelang.compile(load(folder, "many_names", text)["main"], target="sm_100a")
    a, b = np.arange(len(names), dtype=np.int32) * 3, np.zeros(len(names), np.int32)
    kernel(a, b)
    return b


def test_no_name_collides(tmp_path: Path) -> None:
    macros = predefined_macros()
    assert {"__CUDA_ARCH__", "NULL", "TL_DEVICE", "__cplusplus"} <= set(macros) and len(macros) > 80
    functions = re.findall(r'"(?:tl::)?(\w+)"', (SOURCES / "ir/intrinsics.cc").read_text())
    assert {"exp", "__fadd", "atomic_add"} <= set(functions)
    # One rule is for all that start with two underscores.
    plain = [m for m in macros if not m.startswith("__")]
    reserved = [m for m in macros if m.startswith("__")]
    math = [f"{name}f" for name in functions[:60]]
    names = usable([*WORDS.split(), *plain, *reserved[::9], *functions, *math])
    names = [name for name in names if name not in ("A", "B", "T")]
    for start in range(0, len(names), 150):
        part = names[start : start + 150]
        result = local_names(tmp_path, part)
        assert not [name for i, name in enumerate(part) if result[i] != 4 * i]


ROLES = """
@T.prim_func
def {0}({0}: T.Tensor((32,), "int32"), other: T.int32):
    with T.Kernel(1, threads=32) as bx:
        for i in T.Parallel(32):
            {0}[i] = {0}[i] + other
"""


@pytest.mark.parametrize("name", ["NULL", "and_eq", "кернел", "α", "linux", "main", "tl", "__x__"])
def test_kernels_and_parameters_have_any_name(tmp_path: Path, name: str) -> None:
    func = load(tmp_path, "one_name", ROLES.format(name))[name]
    kernel = tilelang.compile(func, target="sm_100a")
    x = np.arange(32, dtype=np.int32)
    kernel(x, 5)
    assert (x == np.arange(32) + 5).all()
    kernel(**{name: x}, other=1)
    assert (x == np.arange(32) + 6).all()
