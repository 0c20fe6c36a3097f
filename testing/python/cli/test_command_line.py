"""The command ``tilelang``: verdicts on right and wrong programs, documents, exit statuses."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from cli.documents import command, document
from click.testing import CliRunner

from tilelang.cli import doctor, main
from tilelang.cli.explain import explanations, remarks

SCALE = """
import tilelang
import tilelang.language as T


@tilelang.jit
def scale(X):
    N = T.const("N")
    X: T.Tensor[[N], T.float32]
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 128), threads=128) as block:
        for i in T.Parallel({extent}):
            Y[block * 128 + i] = X[block * 128 + i] * 2.0
    return Y


def scale_reference(x):
    return {factor} * x
"""
#: Each thread reads what its neighbour writes; the barrier is what a planted bug leaves out.
SHIFT = """
extern "C" __global__ void shift(const float* x, float* y) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  %s
  y[threadIdx.x] = tile[(threadIdx.x + 33) %% 64];
}
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "sm_90a")


def verdict(line: str, status: int) -> dict:
    found = document(f"check {line}", status)
    assert found["ok"] == (status == 0)
    return found


def scale(extent: int = 128, factor: float = 2.0) -> None:
    Path("k.py").write_text(SCALE.format(extent=extent, factor=factor))


def test_a_right_kernel() -> None:
    scale()
    found = verdict("k.py::scale --shapes N=300 --target sm_80 --target sm_100a", 0)
    assert found["compared"] == "compared with scale_reference"
    assert [each["target"] for each in found["targets"]] == ["sm_80", "sm_100a"]
    for target in found["targets"]:
        assert [run["schedule"] for run in target["runs"]] == ["late", "eager", 1]
        (kernel,) = target["kernels"]
        assert kernel["launches"] == 3 and kernel["grid"] == [3, 1, 1]
        assert not kernel["findings"] and kernel["time"]["us"] > 0
        assert 0 <= kernel["time"]["speed_of_light"]["share"] <= 1
        assert kernel["time"]["lines"][0]["place"].startswith("k.py:")


def test_a_wrong_result_says_where_and_by_how_much() -> None:
    scale(factor=3.0)
    found = verdict("k.py::scale --shapes N=300", 1)
    message = found["targets"][0]["runs"][0]["message"]
    assert "300 of 300 elements differ" in message and "the worst is at" in message


def test_several_shapes_are_several_verdicts() -> None:
    scale(extent=100)
    found = verdict("k.py::scale --shapes N=100 --shapes N=128 --seeds 0", 1)
    assert [each["shapes"] for each in found["targets"]] == [{"N": 100}, {"N": 128}]
    assert [each["ok"] for each in found["targets"]] == [True, False]
    assert "N=128" in command("check k.py::scale --shapes N=128").output


def test_what_a_program_raises_is_its_verdict() -> None:
    Path("s.py").write_text("def f():\n    return 1 // 0\n\n\nf()\n")
    found = verdict("s.py --seeds 0", 1)
    message = found["targets"][0]["runs"][0]["message"]
    assert message.startswith("ZeroDivisionError") and message.endswith("(s.py:2)")


def test_what_a_kernel_forgets_to_write_is_wrong() -> None:
    scale(extent=100)
    found = verdict("k.py::scale --shapes N=300", 1)
    assert "56 of 300 elements differ" in found["targets"][0]["runs"][0]["message"]


def test_another_reference_and_no_reference() -> None:
    scale(factor=3.0)
    Path("r.py").write_text("def twice(x):\n    return x + x\n")
    found = verdict("k.py::scale --shapes N=300 --reference r.py::twice", 0)
    assert found["compared"] == "compared with twice"
    assert command("check k.py::scale --shapes N=300 --reference nothing").exit_code == 2


def test_a_script_is_checked_by_what_it_asserts() -> None:
    scale()
    text = Path("k.py").read_text()
    calls = "import torch\nx = torch.randn(500)\ntorch.testing.assert_close(scale(x), {} * x)\n"
    Path("right.py").write_text(text + calls.format(2))
    Path("wrong.py").write_text(text + calls.format(3))
    assert "right on sm_90a" in command("check right.py").output
    found = verdict("wrong.py --seeds 0", 1)
    assert "Mismatched elements" in found["targets"][0]["runs"][0]["message"]


def test_a_planted_race_in_cuda_names_both_lines() -> None:
    Path("good.cu").write_text(SHIFT % "__syncthreads();")
    Path("bad.cu").write_text(SHIFT % "")
    launch = "--block 64 --arg f32[64]:random --arg f32[64]"
    Path("r.py").write_text("def f(x, y):\n    return x.roll(-33)\n")
    verdict(f"good.cu {launch} --reference r.py::f", 0)
    found = verdict(f"bad.cu::shift {launch}", 1)
    finding, *_ = found["targets"][0]["kernels"][0]["findings"]
    assert finding["kind"] == "race" and {"late", "eager"} <= set(finding["schedules"])
    lines = {finding["place"].rpartition(":")[2], finding["earlier"].rpartition(":")[2]}
    assert lines == {"4", "6"}


def test_ptx() -> None:
    scale()
    assert command("export k.py::scale --shapes N=256 --form ptx").exit_code == 0
    launch = "--grid 2 --block 128 --arg f32[256]:random --arg f32[256]"
    Path("r.py").write_text("def f(x, y):\n    return 2 * x\n")
    verdict(f"scale.ptx {launch} --reference r.py::f", 0)
    Path("w.py").write_text("def f(x, y):\n    y.copy_(3 * x)\n")
    found = verdict(f"scale.ptx {launch} --reference w.py::f", 1)
    assert "elements differ" in found["targets"][0]["runs"][0]["message"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("nothing.py", "no file"),
        ("k.py::other", "defines no 'other'"),
        ("k.py::T", "no kernel"),
        ("k.py::scale", "N"),
        ("notes.txt", "is expected"),
        ("bytes.py", "bytes.py is no text in UTF-8"),
        ("bytes.ptx", "bytes.ptx is no text in UTF-8"),
        (".", "is a folder, not a file"),
        ("fails.py::scale", "the program raised ZeroDivisionError: division by zero (fails.py:1)"),
        ("prints.py", "prints.py launches no kernel on the emulator: none is judged"),
        ("copy.cu", "there is no --arg"),
        ("k.py::scale --shapes N=64 --target sm_70", "sm_70"),
        ("k.py::scale --shapes N=64 --seeds -1", "--seeds"),
    ],
)
def test_what_cannot_be_tried(line: str, says: str) -> None:
    scale()
    Path("notes.txt").write_text("")
    for name in ("bytes.py", "bytes.ptx"):
        Path(name).write_bytes(b"\xff\xfe\x80")
    Path("fails.py").write_text("1 / 0\n")
    Path("prints.py").write_text("print(1)\n")
    Path("copy.cu").write_text("__global__ void copy(float* x, float* y) { y[0] = x[0]; }")
    found = verdict(line, 2)
    assert found["schema"] == "tilelang.check"
    assert says in found["error"]
    assert says in command(f"check {line}").output


@pytest.mark.parametrize(
    "line", ["profile", "bench", "ir", "export", "compare k.py", "autotune --try a=1"]
)
def test_a_program_that_raises_cannot_be_tried(line: str) -> None:
    scale()
    name, _, rest = line.partition(" ")
    for text, says in (
        ("1 / 0\n", "the program raised ZeroDivisionError: division by zero (fails.py:1)"),
        ("x =\n", "the program raised SyntaxError: invalid syntax (fails.py:1)"),
    ):
        Path("fails.py").write_text(text)
        subject = "fails.py::scale" if name == "autotune" else "fails.py"
        first = "fails.py " if name == "compare" else ""
        found = document(f"{name} {first}{rest if name == 'compare' else subject + ' ' + rest}", 2)
        assert found["schema"] == f"tilelang.{name}" and says in found["error"]


def test_what_a_program_prints_is_no_part_of_the_document() -> None:
    """Neither where it is run nor where one of its kernels is looked up."""
    scale()
    text = Path("k.py").read_text()
    Path("k.py").write_text(text + "print('{\"ok\": true}')\n")
    assert document("check k.py::scale --shapes N=64 --seeds 0")["schema"] == "tilelang.check"
    assert document("ir k.py::scale --shapes N=64")["schema"] == "tilelang.ir"
    done = subprocess.run(
        [sys.executable, "-m", "tilelang", "check", "k.py::other", "--json"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert "other" in json.loads(done.stdout)["error"]


def test_profile_and_compare() -> None:
    scale()
    Path("a.py").write_text(Path("k.py").read_text() + "import torch\nscale(torch.zeros(1000))\n")
    Path("b.py").write_text(Path("k.py").read_text() + "import torch\nscale(torch.zeros(9**7))\n")
    (kernel,) = document("profile a.py --html page.html --trace t.json --picture p.svg")["kernels"]
    assert kernel["kernel"] == "scale_kernel" and kernel["lines"]
    assert "<html" in Path("page.html").read_text() and "<svg" in Path("p.svg").read_text()
    assert json.loads(Path("t.json").read_text())["traceEvents"]
    found = document("compare a.py b.py")
    assert found["ratio"] == pytest.approx(found["us"][1] / found["us"][0]) and found["ratio"] > 1


def test_ir_export_run_and_emulate() -> None:
    scale()
    stages = document("ir k.py::scale --shapes N=256 --html p.html")
    texts = [each["text"] for each in stages["stages"]]
    assert len(texts) > 3 and texts[0].startswith("def scale(")
    assert all(first != second for first, second in itertools.pairwise(texts))
    line = 1 + Path("k.py").read_text().splitlines().index(
        "            Y[block * 128 + i] = X[block * 128 + i] * 2.0"
    )
    columns = Path("p.html").read_text().split("<div class='column'>")[1:]
    assert len(columns) == 4  # source, passes, CUDA C++, PTX
    assert all(f"k.py:{line}'" in column for column in columns)
    assert "__global__" in _exported("cuda") and ".entry" in _exported("ptx")
    Path("s.py").write_text("print('hello')\n")
    assert command("run s.py").output == "hello\n"
    Path("s.py").write_text("assert 1 + 1 == 3, 'sums'\n")
    result = command("run s.py")
    assert result.exit_code == 1 and "sums" in result.output
    assert document("run s.py", 1)["message"] == "sums"
    assert command("emulate out/scale.ptx --arch sm_90a --list").exit_code == 0


def _exported(form: str) -> str:
    found = document(f"export k.py::scale --shapes N=256 --form {form} --output out")
    return Path(found["files"][0]["path"]).read_text()


def test_cache(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    scale()
    assert document("cache size")["entries"] == 0
    verdict("k.py::scale --shapes N=64 --seeds 0 --inputs none", 0)
    (entry,) = document("cache list")["entries"]
    assert entry["bytes"] > 0
    assert "1 entry" in command("cache size").output
    assert document("cache clear")["entries"] == 1
    assert document("cache size")["bytes"] == 0


def test_doctor_names_a_second_owner_of_the_package(monkeypatch, tmp_path: Path) -> None:
    found = document("doctor")
    names = [each["name"] for each in found["findings"]]
    assert {"package", "emulator", "GPU", "NVRTC", "torch", "cache"} <= set(names)
    other = tmp_path / "tilelang-0.1.15.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: tilelang\nVersion: 0.1.15\n")
    (other / "RECORD").write_text("tilelang/__init__.py,,\n")
    assert "tilelang" not in doctor.owners()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "tilelang" in doctor.owners()
    result = command("doctor")
    assert result.exit_code == 1 and "pip uninstall tilelang" in result.output


def test_python_m_tilelang_is_the_same() -> None:
    line = [sys.executable, "-m", "tilelang", "--help"]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert "doctor" in done.stdout


TRITON = """
import torch, triton, triton.language as tl

@triton.jit
def shift(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at + 1, mask=at + 1 < n)
    tl.store(out + at, value, mask=at + 1 < n)

x = torch.arange(700.0, device="cuda")
out = torch.empty_like(x)
before = x.clone()
shift[(3,)](x, out, 700, BLOCK=256)
assert torch.equal(out[:-1], before[1:])
"""


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_program_in_triton_that_says_cuda() -> None:
    pytest.importorskip("triton")
    Path("t.py").write_text(TRITON)
    (found,) = verdict("t.py --target sm_90a", 0)["targets"]
    assert "without ::shift" in command("check t.py::shift").output
    assert found["kernels"][0]["name"] == "shift" and found["kernels"][0]["time"]["us"] > 0
    Path("t.py").write_text(TRITON.replace("tl.store(out", "tl.store(x"))
    (found,) = verdict("t.py --target sm_80", 1)["targets"]
    race = next(each for each in found["kernels"][0]["findings"] if each["kind"] == "race")
    assert {race["place"].rpartition(":")[2], race["earlier"].rpartition(":")[2]} <= {"7", "8"}


def test_the_kinds_and_topics_are_listed_with_a_sentence_each() -> None:
    lines = CliRunner().invoke(main, ["explain"]).output.splitlines()
    assert "Findings" in lines and "Topics of remarks" in lines
    names = [line.split()[0] for line in lines if line.startswith("  ")]
    assert names == list(explanations() | remarks())
    assert all(len(line.split()) > 4 for line in lines if line.startswith("  "))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("chek k.py", "Did you mean 'check'?"),
        ("k.py", "To check a file: tilelang check k.py"),
        ("explain rac", "did you mean race?"),
        ("check k.py::other --shapes N=64", "k.py defines the kernels scale"),
        ("check k.py::scale", "--shapes N=64"),
        ("profile k.py::scale --shapes N=64 --trace nowhere/x.json", "no file or folder nowhere/x"),
        ("emulate nothing.cu", "no file or folder nothing.cu"),
    ],
)
def test_a_wrong_line_is_told_what_to_do(line: str, says: str, capfd) -> None:
    scale()
    found = CliRunner().invoke(main, line.split())
    assert found.exit_code == 2 and says in found.output + capfd.readouterr().err


def test_a_fault_of_all_schedules_is_told_once() -> None:
    Path("fails.py").write_text("raise ValueError('boom')\n")
    text = CliRunner().invoke(main, ["check", "fails.py"]).output
    assert text.count("boom") == 1 and "every schedule: ValueError: boom (fails.py:1)" in text


def test_a_traceback_of_run_begins_in_the_program() -> None:
    Path("fails.py").write_text("def f():\n    raise ValueError('boom')\n\n\nf()\n")
    found = CliRunner().invoke(main, ["run", "fails.py"])
    assert found.exit_code == 1
    assert found.output.count("File ") == 2 and "ValueError: boom" in found.output
