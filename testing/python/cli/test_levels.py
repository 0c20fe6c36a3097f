"""Levels of findings and kinds of verdicts, as ``check`` prints and counts them."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.documents import command, document

#: Four loads are used before tcgen05.wait::ld.
EARLY = """
extern "C" __global__ void early(unsigned* out) {
  __shared__ unsigned slot;
  unsigned to = __cvta_generic_to_shared(&slot), sum = 0, value;
  if (threadIdx.x < 32)
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" :: "r"(to));
  asm volatile("tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;"
               ::: "memory");
  unsigned own = slot + (threadIdx.x / 32 << 21);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};"
                 :: "r"(own + i), "r"(threadIdx.x * i));
  }
  asm volatile("tcgen05.wait::st.sync.aligned;");
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(value) : "r"(own + i));
    sum += value;
  }
  out[threadIdx.x] = sum;
  asm volatile("tcgen05.wait::ld.sync.aligned; tcgen05.fence::before_thread_sync;");
  asm volatile("bar.sync 0; tcgen05.fence::after_thread_sync;" ::: "memory");
  MORE
  if (threadIdx.x < 32)
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" :: "r"(slot));
}
"""
RACE = "out[threadIdx.x % 64] = threadIdx.x;"
REFERENCE = "import torch\n\n\ndef f(x):\n    return 6 * torch.arange(128, dtype=x.dtype)\n"
LAUNCH = "--target sm_100a --block 128 --arg i32[128] --seeds 0"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.py").write_text(REFERENCE)
    Path("early.cu").write_text(EARLY.replace("MORE", ""))
    Path("racy.cu").write_text(EARLY.replace("MORE", RACE))


def findings(found: dict) -> list[dict]:
    return found["targets"][0]["kernels"][0]["findings"]


def test_letters_are_counted_in_one_line() -> None:
    found = document(f"check early.cu {LAUNCH} --reference r.py::f")
    assert found["verdict"] == "right"
    assert {(each["kind"], each["level"]) for each in findings(found)} == {
        ("ld-before-wait", "letter")
    }
    assert findings(found)[0]["schedules"] == ["late", "eager"]
    text = command(f"check early.cu {LAUNCH} --reference r.py::f").output
    (line,) = [each for each in text.splitlines() if "ld-before-wait" in each]
    assert "of level letter" in line and "--letters list" in line


def test_letters_can_be_listed() -> None:
    line = f"check early.cu {LAUNCH} --reference r.py::f --letters list"
    result = command(line)
    assert result.exit_code == 0
    assert "letter: ld-before-wait at early.cu:" in result.output.replace(str(Path.cwd()) + "/", "")
    assert "of level letter" not in result.output


def test_letters_can_fail() -> None:
    found = document(f"check early.cu {LAUNCH} --reference r.py::f --letters fail", 1)
    assert found["verdict"] == "racy" and not found["ok"]


def test_findings_that_break_come_first() -> None:
    found = document(f"check racy.cu {LAUNCH}", 1)
    levels = [each["level"] for each in findings(found)]
    assert levels[0] == "breaks" and levels[-1] == "letter" and levels == sorted(levels)
    text = command(f"check racy.cu {LAUNCH}").output
    assert text.index("race at ") < text.index("of level letter")


def test_a_race_with_right_results_is_racy() -> None:
    Path("k.cu").write_text("""
extern "C" __global__ void k(int* x) {
  __shared__ int slot;
  if (threadIdx.x == 0) slot = x[64];
  x[threadIdx.x] = slot == -12345 ? 2 : 1;
}
""")
    Path("one.py").write_text("def one(x):\n    x[:64] = 1\n")
    line = "check k.cu --target sm_90a --block 64 --arg i32[65]:random --reference one.py::one"
    found = document(line, 1)
    assert found["verdict"] == "racy"
    assert {run["outcome"] for run in found["targets"][0]["runs"]} == {"right"}


def test_what_a_program_raises_has_failed() -> None:
    Path("s.py").write_text("def f():\n    return 1 // 0\n\n\nf()\n")
    found = document("check s.py --target sm_90a --seeds 0", 1)
    assert found["verdict"] == "failed"
    assert {run["outcome"] for run in found["targets"][0]["runs"]} == {"failed"}


PTX = """.version 8.7
.target {target}
.address_size 64
.visible .entry k(.param .u64 A) {{
 .reg .b64 d; .reg .b32 r; ld.param.u64 d, [A]; mov.u32 r, 7;
 {body}
 st.global.u32 [d], r; ret;
}}
"""


def ptx(target: str, body: str = "") -> str:
    Path("k.ptx").write_text(PTX.format(target=target, body=body))
    Path("seven.py").write_text("def seven(x):\n    return x * 0 + 7\n")
    return "check k.ptx --block 1 --arg i32[1] --reference seven.py::seven --seeds 0"


@pytest.mark.parametrize(
    ("target", "runs"),
    [
        ("sm_80", "sm_80"), ("sm_86", "sm_90a"), ("sm_90", "sm_90a"), ("sm_90a", "sm_90a"),
        ("sm_100f", "sm_100a"), ("sm_100a, debug", "sm_100a"), ("sm_120a", "sm_120a"),
    ],
)  # fmt: skip
def test_ptx_runs_on_its_own_target(target: str, runs: str) -> None:
    line = ptx(target)
    found = document(line)
    assert [each["target"] for each in found["targets"]] == [runs]


def test_ptx_that_no_target_runs_is_not_tried() -> None:
    for target in ("sm_101a", "sm_999"):
        assert "error" in document(ptx(target), 2)
    assert "error" in document(f"{ptx('sm_90a')} --target sm_100a", 2)
    assert "error" in document(ptx("sm_90", "not an instruction"), 2)


def test_what_is_not_modelled_is_incomplete() -> None:
    found = document(ptx("sm_90", "tex.1d.v4.s32.s32 {r, r, r, r}, [d, {r}];"), 2)
    assert found["verdict"] == "incomplete" and not found["ok"]
    message = found["targets"][0]["runs"][0]["message"]
    assert "tex.1d.v4.s32.s32" in message and "PTX line 6" in message


def test_the_outputs_of_a_reference_are_named() -> None:
    """The kernel writes its first and its last array."""
    Path("k.cu").write_text("""
extern "C" __global__ void k(int* sum, const int* x, int* twice) {
  sum[threadIdx.x] = x[threadIdx.x] + 1;
  twice[threadIdx.x] = 2 * x[threadIdx.x];
}
""")
    Path("f.py").write_text(
        "def both(s, x, t):\n    return x + 1, 2 * x\n\n\n"
        "def swapped(s, x, t):\n    return 2 * x, x + 1\n\n\n"
        "def inside(s, x, t):\n    s.copy_(x + 1)\n"
    )
    line = "check k.cu --target sm_90a --block 64 --seeds 0 --arg i32[64]" + (
        " --arg i32[64]:random --arg i32[64]"
    )
    document(f"{line} --reference f.py::both --outputs 0,2")
    document(f"{line} --reference f.py::swapped --outputs 2,0")
    document(f"{line} --reference f.py::inside --outputs 0")
    assert document(f"{line} --reference f.py::both", 1)["verdict"] == "wrong"
    for rest, message in [
        ("--reference f.py::both --outputs 0", "returns 2 arrays"),
        ("--reference f.py::both --outputs 0,3", "argument 3 is no array; arrays are 0, 1, 2"),
    ]:
        assert message in document(f"{line} {rest}", 2)["error"]
    assert command(f"{line} --reference f.py::both --outputs a").exit_code == 2


def test_compare_takes_ptx_and_cuda() -> None:
    Path("slow.cu").write_text("""
extern "C" __global__ void k(int* x) {
  for (int i = 0; i < 1000; ++i) x[threadIdx.x] += i * x[threadIdx.x + 1];
}
""")
    ptx("sm_90a")
    found = document("compare slow.cu k.ptx --target sm_90a --block 64 --block 1 --arg i32[65]")
    assert len(found["us"]) == 2 and found["us"][0] > found["us"][1]
    assert command("compare k.ptx k.ptx --block 1 --block 1 --block 1 --arg i32[1]").exit_code == 2
