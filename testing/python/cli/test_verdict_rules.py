"""Rules of a verdict beside the comparison: what ran, what was written, where work is done."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cli.documents import command, document, validate

KERNEL = """
import torch, tilelang, tilelang.language as T


@tilelang.jit
def copy(X):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], "{dtype}"]
    Y = T.empty((M, N), "{dtype}")
    with T.Kernel(M, threads=128) as row:
        for j in T.Parallel(N):
            if {condition}:
                Y[row, j] = {value}
    return Y
"""
REFERENCE = "\n\ndef copy_reference(x):\n    return x.clone()\n"


def kernel(dtype: str = "float32", condition: str = "True", value: str = "X[row, j]") -> str:
    return KERNEL.format(dtype=dtype, condition=condition, value=value)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "sm_90a")


def check(text: str, line: str = "k.py::copy --shapes M=4,N=40 --seeds 0", status: int = 0) -> dict:
    Path("k.py").write_text(text)
    return document(f"check {line}", status)


def test_compared_with_nothing_is_not_right() -> None:
    found = check(kernel(), status=4)
    assert (found["verdict"], found["ok"], found["compared"]) == ("ran", False, "")
    assert command("check k.py::copy --shapes M=4,N=40").output.startswith("ran on sm_90a")
    found = check(kernel() + "copy(torch.zeros(4, 40))\n", "k.py --seeds 0", 4)
    assert found["verdict"] == "ran"
    found = check(kernel() + "assert (copy(torch.ones(4, 40)) == 1).all()\n", "k.py --seeds 0")
    assert found["verdict"] == "right" and found["compared"]


@pytest.mark.parametrize(
    "dtype", ["float32", "bfloat16", "float8_e4m3fn", "int32", "int8", "bool", "float64"]
)
def test_elements_that_nothing_writes_are_named(dtype: str) -> None:
    found = check(kernel(dtype, "row != 2 or j < 30"), status=1)["targets"][0]
    (unwritten,) = found["unwritten"]
    assert unwritten == {"kernel": "copy", "output": 0, "count": 10, "elements": 160,
                         "first": [2, 30]}  # fmt: skip
    assert "10 of 160 elements" in command("check k.py::copy --shapes M=4,N=40").output
    assert not check(kernel(dtype), status=4)["targets"][0]["unwritten"]


def test_an_accumulator_that_nothing_clears_is_wrong() -> None:
    text = """
    with T.Kernel(M, threads=128) as row:
        total = T.alloc_fragment((N,), T.float32)
        for j in T.Parallel(N):
            {}
        for j in T.Parallel(N):
            Y[row, j] = total[j]
    return Y
"""
    head = kernel().partition("    with T.Kernel")[0]
    (finding,) = check(head + text.format("total[j] += X[row, j]") + REFERENCE, status=1)[
        "targets"
    ][0]["kernels"][0]["findings"][:1]
    assert finding["kind"] == "uninitialized" and finding["place"].endswith("k.py:14")
    check(head + text.format("total[j] = X[row, j]") + REFERENCE)


@pytest.mark.parametrize(
    ("value", "fails"),
    [
        ("T.if_then_else(X[row, j] == 0, 1.0, X[row, j])", "zeros"),
        ("T.max(X[row, j], -1.5)", "large"),
        ("T.min(T.max(X[row, j], -1e30), 1e30)", "infinities"),
        ("X[row, j] + 0.0 * X[row, (j + 1) % 40]", "infinities"),
        ("X[row, j] + 3e-7", "small"),
    ],
)
def test_the_input_on_which_a_kernel_fails_is_named(value: str, fails: str) -> None:
    found = check(kernel(value=value) + REFERENCE, status=1)["targets"][0]
    assert all(run["ok"] for run in found["runs"])
    assert fails in [each["name"] for each in found["inputs"] if each["ok"] is False]
    output = command("check k.py::copy --shapes M=4,N=40").output
    assert f"  input {fails}: " in output and "inputs tried: random, zeros, " in output
    rest = "k.py::copy --shapes M=4,N=40 --seeds 0 --inputs negative"
    assert [each["name"] for each in check(kernel() + REFERENCE, rest)["targets"][0]["inputs"]] == [
        "negative"
    ]
    assert not check(kernel() + REFERENCE, rest.replace("negative", "none"))["targets"][0]["inputs"]
    assert command(f"check {rest.replace('negative', 'odd')}").exit_code == 2


def test_ragged_sizes_are_tried_or_refused() -> None:
    tail = kernel().replace("T.Kernel(M,", "T.Kernel(M // 4 * 4,") + REFERENCE
    found = check(tail, status=1)["targets"][0]
    (ragged,) = [each for each in found["inputs"] if each["ok"] is False]
    assert ragged["text"] == "ragged (M=3, N=39)" and "elements differ" in ragged["message"]
    refused = tail.replace(
        "    Y = T.empty", "    assert M % 4 == 0, 'rows by four'\n    Y = T.empty"
    )
    found = check(refused)["targets"][0]
    assert [each["name"] for each in found["inputs"] if each["ok"] is None] == ["ragged"]
    assert "not tried: ragged (M=3, N=39) (" in command("check k.py::copy --shapes M=4,N=40").output


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import sys\nsys.exit(1)\n", "the script ended with status 1"),
        ("import sys\nsys.exit('3 rows differ')\n", "status 1: 3 rows differ"),
    ],
)
def test_a_script_that_fails_by_its_status_is_wrong(text: str, says: str) -> None:
    found = check(kernel() + "copy(torch.zeros(4, 40))\n" + text, "k.py --seeds 0", 1)
    assert says in found["targets"][0]["runs"][0]["message"]


NUMPY = """
import numpy as np, tilelang, tilelang.language as T


@tilelang.jit
def twice(X):
    N = T.const("N")
    X: T.Tensor[[N], T.float32]
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 128), threads=128) as block:
        for i in T.Parallel({extent}):
            Y[block * 128 + i] = X[block * 128 + i] * 2.0
    return Y


x = np.arange(300, dtype=np.float32)
assert np.array_equal(twice(x), {factor} * x), "not twice"
"""
WITHOUT_TORCH = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, Hidden())
from tilelang.cli import main
main(sys.argv[1:])
"""


def without_torch(line: str) -> tuple[int, dict]:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *line.split(), "--json"],
        capture_output=True, text=True,
    )  # fmt: skip
    return done.returncode, validate(json.loads(done.stdout))


def test_scripts_in_numpy_need_no_torch() -> None:
    for extent, factor, status in ((128, 2, 0), (128, 3, 1), (100, 2, 1)):
        Path("n.py").write_text(NUMPY.format(extent=extent, factor=factor))
        code, found = without_torch("check n.py --seeds 0")
        assert code == status, found
        if extent == 100:
            assert found["targets"][0]["unwritten"][0]["count"] == 56
    Path("n.py").write_text(NUMPY.format(extent=128, factor=2))
    code, found = without_torch("check n.py::twice --shapes N=30")
    assert code == 2 and "torch" in found["error"]


MODEL = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)


def get_inputs():
    return [torch.rand(4, 40)]
"""
NEW = """

class ModelNew(torch.nn.Module):
    def forward(self, x):
        {}
"""


def grade(call: str, status: int, *options: str) -> dict:
    Path("model.py").write_text(MODEL)
    Path("solution.py").write_text(kernel() + NEW.format(call))
    found = document(" ".join(["grade model.py solution.py --seeds 0", *options]), status)
    return found["workloads"][0]


@pytest.mark.parametrize(
    ("call", "operation"),
    [
        ("copy(x); return torch.softmax(x, 1)", "torch._softmax"),
        ("return torch.softmax(copy(x), -1)", "torch._softmax"),
        ("y = copy(x).exp(); return y.div_(y.sum(-1, keepdim=True))", "torch.exp"),
        ("return torch.from_numpy(copy(x).numpy()).exp()", "Tensor.numpy"),
        ("return torch.tensor(copy(x).tolist()).softmax(-1)", "Tensor.tolist"),
    ],
)
def test_work_outside_of_kernels_is_named(call: str, operation: str) -> None:
    right = "exp()" not in call or "sum" in call
    found = grade(call, 1)
    names = {each["operation"]: each["place"] for each in found["outside"]}
    assert names[operation] == "solution.py:19"
    assert not right or operation in found["runs"][0]["message"]
    if right and "Tensor" not in operation:
        assert grade(call, 0, "--allow-torch")["verdict"] == "right"


def test_moving_data_is_no_work() -> None:
    Path("model.py").write_text(MODEL.replace("torch.softmax(x, -1)", "x.T.contiguous() * 1"))
    call = (
        "y = torch.empty_like(x).copy_(x.reshape(-1).view(4, 40)).double().float(); "
        "return copy(y.contiguous()).clone().T.contiguous()"
    )
    Path("solution.py").write_text(kernel() + NEW.format(call))
    (found,) = document("grade model.py solution.py --seeds 0")["workloads"]
    assert found["outside"] == []


@pytest.mark.parametrize("call", ["__import__('sys').exit(0)", "raise SystemExit"])
def test_a_solution_that_ends_the_program_is_wrong(call: str) -> None:
    message = grade(call, 1)["runs"][0]["message"]
    assert "ended itself" in message
    Path("solution.py").write_text(f"import sys\n{call}\n")
    found = document("grade model.py solution.py --seeds 0", 1)["workloads"][0]
    assert "ended itself" in found["runs"][0]["message"]


@pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_a_program_that_kills_the_process_leaves_a_document(end: str) -> None:
    Path("model.py").write_text(MODEL)
    Path("end.py").write_text(f"import os\n{end}\n")
    found = {}
    for line in ("grade model.py end.py", "check end.py"):
        done = subprocess.run(
            [sys.executable, "-m", "tilelang", *line.split(), "--json"],
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 1
        found[line.split()[0]] = validate(json.loads(done.stdout))
    for name, many in (("check", "targets"), ("grade", "workloads")):
        assert found[name]["verdict"] == "failed"
        assert "ended its process" in found[name][many][0]["runs"][0]["message"]


def test_a_check_does_not_import_the_compiler_of_torch() -> None:
    Path("k.py").write_text(kernel() + "\n\ndef copy_reference(x):\n    return x.clone()\n")
    code = (
        "import sys\nfrom tilelang.cli import main\n"
        "try:\n    main(['check', 'k.py::copy', '--shapes', 'M=4,N=40'])\n"
        "finally:\n    print(sorted({'torch._dynamo', 'torch._inductor'} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith("right on") and done.stdout.endswith("[]\n"), done.stdout
