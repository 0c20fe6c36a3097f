"""``tilelang explain``: each example is found, or silent, on the emulator."""

from __future__ import annotations

import linecache
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from cli.documents import command, document

import tilelang
import tilelang.language as T
from tilelang.cli.explain import examples, explanations, remarks
from tilelang.emulator import Device, EmulatorError, EmulatorWarning, options
from tilelang.emulator.launch_options import FINDINGS

FRAME = """.version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 A) .reqntid 128 {{
 .shared .align 1024 .b8 tile[8192]; .shared .align 8 .b64 bar;
 .reg .b32 thread, tmem, quarter, lanes, mine, next, other; .reg .b64 global, element, desc;
 .reg .b32 value, a, b, c, d; .reg .pred first, warp0, done;
 ld.param.u64 global, [A]; mov.u32 thread, %tid.x;
 mul.wide.u32 element, thread, 4; add.u64 element, element, global;
 setp.eq.u32 first, thread, 0; setp.lt.u32 warp0, thread, 32;
 shr.u32 quarter, thread, 5; shl.b32 quarter, quarter, 21;
 mov.u32 other, tile; shl.b32 mine, thread, 2; xor.b32 next, mine, 256;
 add.u32 mine, mine, other; add.u32 next, next, other; mov.b64 desc, {desc};
 {body}
 ret;
}}
"""
ROOT = Path(__file__).resolve().parents[3]
#: The topic of a remark in C++, and of a choice in Python.
REMARK = re.compile(r"\bRemark\((?:[^()\"]|\([^()]*\))*?,\s*\"([a-z]+)\"")
KIND = re.compile(
    r"\b(?:EmulatorError|Fail|Error|ErrorAt|Report|Warn|WarnAt|Found|Lint)"
    r"\((?:[^();\"]|\([^()]*\)){0,120}?\"([a-z][a-z0-9-]+)\","
)
CHOICE = re.compile(r"remark_choice\(\s*\"([a-z]+)\"")
WITH_EXAMPLES = [name for name in explanations() if examples(name)]


def run(name: str, which: str, schedule: str | int) -> list[str]:
    """Returns the kinds of findings, errors and warnings of this name in an example."""
    target = "sm_90a" if "wgmma" in name else "sm_100a"
    desc = 1024 >> 4 | 128 >> 4 << 16 | 256 >> 4 << 32 | (target == "sm_100a") << 46
    text = FRAME.format(target=target, body=examples(name)[which], desc=desc)
    array = np.arange(128, dtype=np.uint32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmulatorWarning)
        try:
            kernel = Device(target).load_ptx(text)["k"]
            report = kernel.launch(1, 128, [array], schedule=schedule, sanitize="report")
        except EmulatorError as error:
            return [each.kind for each in (*error.findings, *error.letters, error)]
    warned = {each["kind"] for each in report.warnings} & {name}
    return [*(each.kind for each in (*report.findings, *report.letters)), *warned]


@pytest.fixture(autouse=True)
def _defaults():
    with options(letters="count"):
        yield


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_wrong_kernel_is_found(name: str) -> None:
    found = [run(name, "wrong", schedule) for schedule in ("late", "eager", 1, 2, 3, 4)]
    assert all(found) and name in {each for group in found for each in group}


@pytest.mark.parametrize("schedule", ["late", "eager"])
@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_right_kernel_is_silent(name: str, schedule: str) -> None:
    assert not run(name, "right", schedule)


def test_every_finding_is_explained() -> None:
    """Every kind of error, finding and warning that the engine names has an explanation."""
    sources = [path.read_text() for path in (ROOT / "src" / "emulator").rglob("*.cc")]
    kinds = {kind for text in sources for kind in KIND.findall(text)}
    assert len(kinds) > 30 and kinds | set(FINDINGS) <= set(explanations())
    for name, text in explanations().items():
        assert re.fullmatch(r"[a-z0-9-]+", name) and len(text) > 80


def _remarks(topic: str, which: str) -> set[str]:
    text = "import tilelang.language as T\n\n\n" + examples(topic)[which]
    names: dict = {}
    linecache.cache[f"<{topic} {which}>"] = (len(text), None, text.splitlines(True), "")
    exec(compile(text, f"<{topic} {which}>", "exec"), names)
    kernel = tilelang.compile(T.prim_func(names["kernel"]), target="sm_90a")
    return {each.message for each in kernel.remarks if each.topic == topic}


@pytest.mark.parametrize("topic", [name for name in remarks() if examples(name)])
def test_the_wrong_kernel_leaves_a_remark(topic: str) -> None:
    wrong = _remarks(topic, "wrong")
    assert wrong and not wrong & _remarks(topic, "right")


def test_every_topic_of_a_remark_is_explained() -> None:
    sources = [path.read_text() for path in (ROOT / "src").rglob("*.cc")]
    found = {topic for text in sources for topic in REMARK.findall(text)}
    found |= {topic for path in (ROOT / "tilelang" / "language").rglob("*.py")
              for topic in CHOICE.findall(path.read_text())}  # fmt: skip
    assert len(found) > 10 and found <= set(remarks())
    assert not set(remarks()) & set(explanations())


def test_the_command() -> None:
    found = document("explain missing-proxy-fence")
    (row,) = found["findings"]
    assert row["level"] == "breaks" and "fence.proxy.async" in row["right"]
    assert document("explain ld-before-wait")["findings"][0]["level"] == "letter"
    text = command("explain race").output
    assert "wrong:\n    st.shared" in text and "PTX ISA" in text and "```" not in text
    listed = [line.split()[0] for line in command("explain").output.splitlines() if line[:1] == " "]
    assert listed == [*explanations(), *remarks()]
    assert document("explain pipeline")["findings"][0]["level"] == "remark"
    assert "did you mean race" in document("explain rase", 2)["error"]
