"""``grade``: small problems as of KernelBench and FlashInfer-Bench, and their solutions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.documents import command, document

KERNEL = """
import tilelang
import tilelang.language as T


@tilelang.jit
def scaled_sum(X, Y, factor: T.float32):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.float32]
    Y: T.Tensor[[M, N], T.float32]
    Z = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 32), M, threads=32) as (column, row):
        for i in T.Parallel(32):
            Z[row, column * 32 + i] = (X[row, column * 32 + i] + Y[row, column * 32 + i]) * factor
    return Z
"""

MODEL = """
import torch


class Model(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(5, size))

    def forward(self, x):
        return 3.0 * (x + self.weight)


def get_inputs():
    return [torch.randn(5, 70)]


def get_init_inputs():
    return [70]
"""

SOLUTION = (
    "import torch\n"
    + KERNEL
    + """

class ModelNew(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(5, size))

    def forward(self, x):
        return scaled_sum(x, self.weight.detach(), FACTOR)
"""
)

DEFINITION = {
    "name": "scaled_sum", "op_type": "elementwise",
    "axes": {"M": {"type": "var"}, "N": {"type": "const", "value": 40}},
    "inputs": {
        "x": {"shape": ["M", "N"], "dtype": "float32"},
        "y": {"shape": ["M", "N"], "dtype": "float32"},
        "factor": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"z": {"shape": ["M", "N"], "dtype": "float32"}},
    "reference": "def run(x, y, factor):\n    return (x + y) * factor\n",
}  # fmt: skip


def _workload(name: str, m: int, **inputs: dict) -> str:
    sources = {"x": {"type": "random"}, "y": {"type": "random"},
               "factor": {"type": "scalar", "value": 0.5}}  # fmt: skip
    workload = {"uuid": name, "axes": {"M": m}, "inputs": sources | inputs}
    return json.dumps({"definition": "scaled_sum", "workload": workload})


def _solution(call: str, destination: bool = False, **changes: object) -> None:
    spec = {"language": "tilelang", "target_hardware": ["B200"], "entry_point": "main.py::run",
            "destination_passing_style": destination}  # fmt: skip
    content = {"name": "ours", "definition": "scaled_sum", "spec": spec,
               "sources": [{"path": "main.py", "content": KERNEL + call}]}  # fmt: skip
    Path("solution.json").write_text(json.dumps(content | changes))


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "sm_90a")
    Path("model.py").write_text(MODEL)
    Path("definition.json").write_text(json.dumps(DEFINITION))
    Path("workloads.jsonl").write_text(_workload("small", 3) + "\n\n" + _workload("odd", 7) + "\n")


GRADE_FLASHINFER = "grade definition.json solution.json --workloads workloads.jsonl --seeds 0"


def test_kernelbench_shares_the_weights_and_compares() -> None:
    Path("right.py").write_text(SOLUTION.replace("FACTOR", "3.0"))
    found = document("grade model.py right.py --target sm_100a")
    assert found["ok"] and found["kind"] == "kernelbench" and found["target"] == "sm_100a"
    (workload,) = found["workloads"]
    assert [run["ok"] for run in workload["runs"]] == [True, True, True]
    assert workload["kernels"][0]["time"]["us"] > 0
    Path("wrong.py").write_text(SOLUTION.replace("FACTOR", "3.1"))
    found = document("grade model.py wrong.py --seeds 0", 1)
    assert "of 350 elements differ" in found["workloads"][0]["runs"][0]["message"]
    assert "WRONG" in command("grade model.py wrong.py --seeds 0").output


@pytest.mark.parametrize(("factor", "status"), [("3.0", 0), ("3.0001", 1)])
def test_over_the_field(factor: str, status: int) -> None:
    Path("new.py").write_text(SOLUTION.replace("FACTOR", factor))
    (found,) = document("grade model.py new.py --seeds 0 --algebra", status)["workloads"]
    assert "over a finite field" in found["compared"]
    messages = {"" if not status else "element (0, 0) differs, as do 349 others of 350"}
    assert {run["message"].partition(":")[0] for run in found["runs"]} == messages


def test_a_solution_without_a_kernel_is_wrong() -> None:
    text = MODEL.replace("class Model(", "class ModelNew(")
    Path("torch_only.py").write_text(text)
    found = document("grade model.py torch_only.py --seeds 0", 1)
    assert "launched no kernel" in found["workloads"][0]["runs"][0]["message"]


TRITON = """
import torch, triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, tl.maximum(value, 0.0), mask=at < n - MISSING)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape, device=DEVICE)
        relu_kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
        return y
"""
RELU = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x.relu()


def get_inputs():
    return [torch.randn(30, 7)]
"""


@pytest.mark.parametrize("device", ["x.device", "'cuda'"])
def test_solutions_in_triton(device: str) -> None:
    """Those that take the device of the input, and those that say "cuda"."""
    pytest.importorskip("triton")
    Path("model.py").write_text(RELU)
    text = TRITON.replace("DEVICE", device)
    Path("right.py").write_text(text.replace("MISSING", "0"))
    found = document("grade model.py right.py --seeds 0")
    assert found["ok"] and found["workloads"][0]["kernels"][0]["name"] == "relu_kernel"
    Path("wrong.py").write_text(text.replace("MISSING", "5"))
    found = document("grade model.py wrong.py --seeds 0", 1)
    assert "5 of 210 elements differ" in found["workloads"][0]["runs"][0]["message"]


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("definition.json", {"inputs": ["x"]}, "not of FlashInfer-Bench's format"),
        ("definition.json", {"inputs": {"x": {"shape": ["M"]}}}, "KeyError: 'dtype'"),
        ("definition.json", {"outputs": {"z": {"shape": 3, "dtype": "float32"}}}, "TypeError"),
        ("definition.json", {"inputs": {"x": {"shape": [], "dtype": "f7"}}}, "no dtype 'f7'"),
        ("definition.json", {"axes": None}, "not of FlashInfer-Bench's format"),
        ("definition.json", {"reference": "def run(:"}, "raised SyntaxError"),
        ("definition.json", {"reference": 3}, "TypeError"),
        ("solution.json", {"sources": [3]}, "not of FlashInfer-Bench's format"),
        ("solution.json", {"sources": [{"path": "main.py"}]}, "KeyError: 'content'"),
        ("solution.json", {"spec": None}, "has no 'entry_point'"),
        ("workloads.jsonl", {"workload": {"axes": {"M": "3"}}}, "the axis 'M' is '3', no length"),
        ("workloads.jsonl", {"workload": 3}, "has no 'axes'"),
    ],
)
def test_files_of_another_shape(file: str, content: dict, says: str) -> None:
    _solution("\n\ndef run(x, y, factor):\n    return scaled_sum(x, y, factor)\n")
    given = (
        json.loads(Path(file).read_text().splitlines()[0])
        if "jsonl" in file
        else json.loads(Path(file).read_text())
    )
    Path(file).write_text(json.dumps(given | content))
    assert says in document(GRADE_FLASHINFER, 2)["error"]


def test_flashinfer_bench_runs_every_workload() -> None:
    _solution("\n\ndef run(x, y, factor):\n    return scaled_sum(x, y, factor)\n")
    found = document(GRADE_FLASHINFER)
    assert [each["workload"] for each in found["workloads"]] == ["small", "odd"]
    assert [each["shapes"] for each in found["workloads"]] == [{"M": 3}, {"M": 7}]
    _solution("\n\ndef run(x, y, factor):\n    return scaled_sum(x, y, 2 * factor)\n")
    found = document(GRADE_FLASHINFER, 1)
    assert "280 of 280 elements differ" in found["workloads"][1]["runs"][0]["message"]


def test_flashinfer_bench_outputs_are_poisoned() -> None:
    _solution("\n\ndef run(x, y, factor, z):\n    z.copy_(scaled_sum(x, y, factor))\n", True)
    assert document(GRADE_FLASHINFER)["ok"]
    text = "\n\ndef run(x, y, factor, z):\n    z[1:] = scaled_sum(x, y, factor)[1:]\n"
    _solution(text, True)
    found = document(GRADE_FLASHINFER, 1)
    assert "40 of 120 elements differ" in found["workloads"][0]["runs"][0]["message"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("model.py missing.py", "missing.py"),
        ("solution.py solution.py", "solution.py"),
        ("empty.py model.py", "get_inputs"),
        ("model.py model.py", "ModelNew"),
        ("definition.json solution.json", "--workloads"),
        ("definition.json solution.json --workloads empty.jsonl", "no workload"),
        ("definition.json solution.json --workloads bad.jsonl", "no JSON"),
        ("definition.json solution.json --workloads files.jsonl", "safetensors"),
        ("definition.json escaping.json --workloads workloads.jsonl", "outside"),
        ("definition.json other.json --workloads workloads.jsonl", "'rope'"),
        ("model.py model.py --workloads workloads.jsonl", "no file of workloads"),
    ],
)
def test_what_cannot_be_graded(line: str, says: str) -> None:
    sources = [{"path": "../main.py", "content": "x = 1"}]
    for name, changes in (("escaping", {"sources": sources}), ("other", {"definition": "rope"})):
        _solution("\n\ndef run(x, y, factor):\n    return x\n", **changes)
        Path("solution.json").rename(f"{name}.json")
    _solution("\n\ndef run(x, y, factor):\n    return x\n")
    Path("empty.py").write_text("")
    Path("empty.jsonl").write_text("\n")
    Path("bad.jsonl").write_text("{\n")
    Path("files.jsonl").write_text(_workload("saved", 3, x={"type": "safetensors", "path": "x"}))
    assert says in document(f"grade {line}", 2)["error"]
