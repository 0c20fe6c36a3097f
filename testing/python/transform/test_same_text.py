"""What the compiler prints does not depend on addresses or hashes."""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("same_text.py")


def test_every_process_prints_the_same() -> None:
    running = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(seed)],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in range(1, 5)
    ]
    texts = [process.communicate()[0] for process in running]
    assert all(process.returncode == 0 for process in running)
    assert "infer_layouts" in texts[0]
    for text in texts[1:]:
        assert not list(difflib.unified_diff(texts[0].splitlines(), text.splitlines(), n=0))
