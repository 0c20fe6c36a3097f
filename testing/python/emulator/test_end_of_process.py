"""The interpreter ends while a daemon thread is inside a launch."""

import subprocess
import sys

import pytest

CODE = """
import threading, time, torch, tilelang, tilelang.language as T

@T.prim_func
def long(X: T.Tensor((128,), "float32")):
    with T.Kernel(100000, threads=128):
        v = T.alloc_var("float32")
        v = 0.0
        for i in T.serial(10000000):
            v = v * 0.5 + X[i % 128]
        if v == 12345.0:
            X[0] = v

kernel = tilelang.compile(long, target="sm_90a")
began = threading.Event()

def work():
    began.set()
    kernel(torch.zeros(128))
    print("the launch has ended")

threading.Thread(target=work, daemon=True).start()
began.wait()
time.sleep(0.5)
"""


@pytest.mark.parametrize(("end", "status"), [("", 0), ("raise SystemExit(3)", 3), ("1 / 0", 1)])
def test_the_process_keeps_its_status(end, status, tmp_path):
    program = tmp_path / "daemon.py"
    program.write_text(CODE + end)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=100)
    assert done.returncode == status, done.stderr
    assert "terminate" not in done.stderr and "has ended" not in done.stdout
