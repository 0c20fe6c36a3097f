"""The receipt of a verdict: hashes, versions, and the fidelity of the instructions."""

from __future__ import annotations

import hashlib
from pathlib import Path

from cli.documents import document

import tilelang

KERNEL = """
import tilelang
import tilelang.language as T


@tilelang.jit
def power(X):
    N = T.const("N")
    X: T.Tensor[[N], T.float32]
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 32), threads=32) as block:
        for i in T.Parallel(32):
            Y[block * 32 + i] = T.exp2(X[block * 32 + i])
    return Y


def reference(x):
    return 2**x
"""


def test_a_receipt_names_what_the_verdict_depends_on(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text(KERNEL)
    line = "check k.py::power --shapes N=50 --target sm_90a --seeds 0 --inputs none"
    found = document(line)
    (target,) = found["targets"]
    receipt = target["receipt"]
    assert found["files"] == [
        {"path": "k.py", "sha256": hashlib.sha256(KERNEL.encode()).hexdigest()}
    ]
    assert receipt["schedules"] == ["late", "eager"] and len(set(receipt["inputs"])) == 1
    assert receipt["instructions"]["approximate"] == ["ex2"]
    assert "ld" in receipt["instructions"]["exact"]
    assert receipt["instructions"]["not modelled"] == []
    library = hashlib.sha256(tilelang._ffi.LIBRARY_PATH.read_bytes()).hexdigest()
    assert receipt["versions"]["library"] == library
    other = document(f"{line} --seed 5")
    assert other["seed"] == 5
    assert other["targets"][0]["receipt"]["inputs"] != receipt["inputs"]
    assert other["targets"][0]["receipt"]["ptx"] == receipt["ptx"]
