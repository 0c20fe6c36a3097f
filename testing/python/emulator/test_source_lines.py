"""Which source line a report names: that of the kernel, also in code inlined from a header."""

import numpy as np
import pytest
from ptx_kernels import HEADER

import tilelang
import tilelang.language as T
from tilelang.emulator import Device, EmulatorError

_FILES = '.file 1 "/home/user/kernel.cu"\n.file 2 "/usr/include/library.h"\n.file 3 "deep.h"\n'
_FAULT = "ld.global.u32 %r1, [%d1];"


def fault(*locations):
    """Returns the error of a load that follows .loc directives."""
    body = "\n".join(f" .loc {location}" for location in locations)
    text = (
        f"{HEADER}.visible .entry k() {{ .reg .b32 %r<3>; .reg .b64 %d<3>;\n mov.u64 %d1, 64;\n"
        f"{body}\n {_FAULT}\n ret;\n}}\n{_FILES}"
    )
    with pytest.raises(EmulatorError) as caught:
        Device("sm_100a").load_ptx(text)["k"].launch(1, 1, [])
    return caught.value


def place(span):
    return None if span is None else (span.file, span.line)


@pytest.mark.parametrize(
    ("locations", "source", "inlined"),
    [
        (["1 7 3"], ("/home/user/kernel.cu", 7), None),
        (["1 7"], ("/home/user/kernel.cu", 7), None),
        (
            ["1 7 3", "2 41 5, function_name $L__info_string0, inlined_at 1 9 3"],
            ("/home/user/kernel.cu", 9), ("/usr/include/library.h", 41),
        ),
        (
            ["1 7 3", "2 41 5, function_name $L__info_string0+16, inlined_at 1 9 3",
             "3 2 1, function_name $L__info_string1, inlined_at 2 41 5"],
            ("/home/user/kernel.cu", 9), ("deep.h", 2),
        ),
        (  # a function of the user's own file: its line, not that of the call
            ["1 7 3", "1 3 5, function_name $L__info_string0, inlined_at 1 9 3"],
            ("/home/user/kernel.cu", 3), None,
        ),
        (  # inlined from there, through a header
            ["1 7 3", "1 3 5, function_name $L__info_string0, inlined_at 1 9 3",
             "2 8 8, function_name $L__info_string0, inlined_at 1 3 5"],
            ("/home/user/kernel.cu", 3), ("/usr/include/library.h", 8),
        ),
        (  # generated code: the line before
            ["1 7 3", "2 0 1"], ("/home/user/kernel.cu", 7), None,
        ),
        (  # the same place again, no longer inlined
            ["1 7 3", "2 41 5, function_name $L__info_string0, inlined_at 1 9 3", "1 11 1",
             "2 41 5"],
            ("/home/user/kernel.cu", 11), ("/usr/include/library.h", 41),
        ),
    ],
)  # fmt: skip
def test_the_users_line(locations, source, inlined):
    error = fault(*locations)
    assert place(error.span) == source
    assert place(error.inlined) == inlined
    assert f"source: {source[0]}:{source[1]}" in str(error)
    assert ("inlined from: " in str(error)) == (inlined is not None)


def _line_of(marker):
    with open(__file__) as file:
        return next(i for i, line in enumerate(file, 1) if line.rstrip().endswith("# " + marker))


def test_a_wait_that_never_ends_names_the_kernels_line():
    @T.prim_func
    def waits(A: T.Tensor((64, 64), "bfloat16"), B: T.Tensor((64, 64), "bfloat16")):
        with T.Kernel(1, threads=128):
            shared = T.alloc_shared((64, 64), "bfloat16")
            bar = T.alloc_barrier(1)
            T.copy(A, shared)
            T.mbarrier_wait_parity(bar, 0)  # the wait
            T.copy(shared, B)

    kernel = tilelang.compile(waits, target="sm_100a")
    torch = pytest.importorskip("torch")
    a, b = torch.randn(64, 64).bfloat16(), torch.empty(64, 64).bfloat16()
    with pytest.raises(EmulatorError) as caught:
        kernel(a, b)
    assert caught.value.kind == "deadlock"
    assert caught.value.span.file == __file__
    assert caught.value.span.line == _line_of("the wait")
    assert f"source line {_line_of('the wait')}, wait for mbarrier" in caught.value.reason


def test_lines_of_inline_assembly():
    """LLVM counts the lines of a block of assembly on from that of the statement."""
    text = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) {
  .reg .b64 %rd<3>;
  .reg .b32 %r<3>;
  .loc 1 10 1
  ld.param.u64 %rd1, [p];
  // begin inline asm
  .loc 1 10 1
  mov.u32 %r1, 0;
  .loc 1 11 1
  ld.global.b32 %r1, [%rd1 + 64];
  // end inline asm
  ret;
  .file 1 "kernel.py"
}
"""
    kernel = Device("sm_80").load_ptx(text)["k"]
    with pytest.raises(EmulatorError) as caught:
        kernel.launch(1, 1, [np.zeros(4, np.float32)])
    assert (caught.value.span.line, caught.value.ptx_line) == (10, 14)
