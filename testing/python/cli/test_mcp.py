"""``tilelang mcp``: its tools, called by the client of the package over stdio."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import click
import pytest
from cli.documents import validate

from tilelang.cli import main, serve

mcp = pytest.importorskip("mcp", reason="the extra mcp is not installed")

RIGHT = """
import torch, tilelang, tilelang.language as T


@tilelang.jit
def twice(X):
    N = T.const("N")
    X: T.Tensor[[N], T.float32]
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 32), threads=32) as block:
        for i in T.Parallel(32):
            Y[block * 32 + i] = X[block * 32 + i] * 2.0
    return Y


def twice_reference(x):
    return x + x
"""


def _talk(words: list[str], talk: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    parameters = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "tilelang", "mcp", *words], env=dict(os.environ)
    )

    async def session() -> Any:
        async with mcp.Client(parameters) as client:
            return await talk(client)

    return asyncio.run(asyncio.wait_for(session(), 240))


def _content(result: Any) -> dict[str, Any]:
    return json.loads(result.content[0].text)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text(RIGHT)


def test_the_tools_give_the_documents_of_the_command_line() -> None:
    async def talk(client: Any) -> tuple[Any, ...]:
        tools = await client.list_tools()
        path = str(Path("k.py").resolve())
        call = {"subject": f"{path}::twice", "shapes": ["N=50"], "targets": ["sm_90a"], "seeds": 0}
        return (
            tools.tools,
            await client.call_tool("check", call),
            await client.call_tool("check_source", {
                "source": RIGHT.replace("2.0", "2.5"), "kernel": "twice", "shapes": ["N=50"],
                "targets": ["sm_80"], "seeds": 0}),
            await client.call_tool("check", {"subject": "nothing.py"}),
        )  # fmt: skip

    tools, right, wrong, missing = _talk([], talk)
    names = {tool.name for tool in tools}
    assert {"check", "check_source", "grade", "profile", "compare", "bench", "autotune", "ir",
            "export", "emulate", "doctor"} == names  # fmt: skip
    assert names - {"check_source"} <= set(main.list_commands(click.Context(main)))
    assert all(tool.description for tool in tools)
    assert validate(_content(right))["ok"] is True
    found = validate(_content(wrong))
    assert found["ok"] is False and found["targets"][0]["target"] == "sm_80"
    assert "elements differ" in found["targets"][0]["runs"][0]["message"]
    assert "no file" in validate(_content(missing))["error"]


@pytest.mark.nightly  # it waits for 20 seconds
def test_a_program_that_hangs_is_ended_and_one_that_dies_is_told() -> None:
    hang = (
        "import subprocess, sys, pathlib\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'])\n"
        f"pathlib.Path({str(Path('child').resolve())!r}).write_text(str(child.pid))\n"
        "child.wait()\n"
    )
    flood = "import os\nfor _ in range(9):\n    os.write(1, b'x' * (1 << 20))\nos._exit(7)\n"

    async def talk(client: Any) -> list[Any]:
        sources = [hang, flood]
        return [await client.call_tool("check_source", {"source": each}) for each in sources]

    hanging, dying = (_content(each) for each in _talk(["--timeout", "20"], talk))
    assert "after 20 seconds" in hanging["error"]
    assert dying["verdict"] == "failed" and len(json.dumps(dying)) < 5000
    assert "status 7" in dying["targets"][0]["runs"][0]["message"]
    child = Path("/proc", Path("child").read_text())
    assert not child.exists() or "Z" in child.joinpath("stat").read_text().split()[2]


def test_without_the_package_the_error_names_the_extra(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    with pytest.raises(serve.ConfigError, match="mcp"):
        serve.server(1.0)
