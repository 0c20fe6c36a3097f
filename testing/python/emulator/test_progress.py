"""The progress bar of long launches: on a terminal, in a notebook, nowhere else."""

import io
import sys
import types

import numpy as np
import pytest
from ptx_kernels import HEADER

from tilelang.emulator import Device, progress

KERNEL = Device("sm_100a").load_ptx(
    HEADER + ".visible .entry slow(.param .u64 P) { .reg .b32 %r<4>; .reg .pred %p;\n"
    " mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1; setp.lt.u32 %p, %r2, 400000; @%p bra L; ret; }"
)["slow"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Display:
    """Stands in for IPython's display with updates in place."""

    def __init__(self):
        self.texts = []

    def __call__(self, data, raw, display_id):
        assert raw and display_id and not self.texts
        self.texts.append(data["text/plain"])
        return types.SimpleNamespace(update=self.update)

    def update(self, data, raw):
        assert raw
        self.texts.append(data["text/plain"])


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(progress, "_DELAY", 0.0)
    monkeypatch.setattr(progress, "_INTERVAL", 0.005)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)


def launch(**options):
    KERNEL.launch(40, 32, [np.zeros(1, np.uint32)], **options)


def bars(texts):
    return [text for text in texts if "slow [" in text]


def test_terminal(impatient, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    launch()
    lines = terminal.getvalue().split("\r\x1b[K")
    shares = [int(text.split("] ")[1].split("%")[0]) for text in bars(lines)]
    assert shares and shares == sorted(shares) and 0 < shares[-1] <= 100
    assert lines[-1] == ""  # the last thing is to erase it
    assert len(set(lines[1:])) == len(lines[1:])  # drawn only when it changes


def test_notebook(impatient, monkeypatch):
    display = Display()
    ipython = types.ModuleType("IPython.display")
    ipython.display = display
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", ipython)
    launch()
    assert bars(display.texts) and display.texts[-1] == ""


@pytest.mark.parametrize("options", [{"progress": False}, {}])
def test_nowhere(impatient, monkeypatch, options):
    stream = Terminal() if options else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    launch(**options)
    assert stream.getvalue() == ""


def test_short_launches_show_nothing(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    monkeypatch.setattr(progress, "_DELAY", 100.0)
    launch()
    assert terminal.getvalue() == ""
