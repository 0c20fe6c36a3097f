"""``tilelang ir``, ``export`` and ``run``: what a kernel became, and running it."""

from __future__ import annotations

import contextlib
import difflib
import html
import io
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ..errors import UserError
from ..jit.kernel import JITKernel, compiling
from .options import chosen_target, request_of, request_options, shapes_option
from .output import document, emit, guarded, json_option
from .programs import Request, answering, judged, program_of

_FORMS: dict[str, Callable[[JITKernel], str | bytes]] = {
    "cuda": JITKernel.get_kernel_source, "ptx": JITKernel.get_ptx,
    "cubin": lambda kernel: kernel.artifact.cubin, "sass": JITKernel.get_sass,
}  # fmt: skip
_ENDINGS = {"cuda": "cu", "ptx": "ptx", "cubin": "cubin", "sass": "sass"}


def _compiled(request: Request, target: str) -> list[JITKernel]:
    """The kernels that a program compiles, each name once."""
    program = program_of(request)
    found: dict[str, JITKernel] = {}

    def keep(kernel: JITKernel) -> None:
        found.setdefault(kernel.name, kernel)

    with answering(), compiling(keep), contextlib.redirect_stdout(io.StringIO()):
        program.run(target)
    if not found:
        raise UserError(f"{request.path.name} compiles no kernel")
    return list(found.values())


def _subject(subject: str, shapes: dict[str, int]) -> Request:
    path, _, name = subject.partition("::")
    return Request(Path(path), name, shapes=shapes)


@contextlib.contextmanager
def _dumping(folder: str) -> Any:
    before = {name: os.environ.get(name) for name in ("TILELANG_DUMP_IR",)}
    os.environ["TILELANG_DUMP_IR"] = folder
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@click.command()
@click.argument("subject", metavar="FILE[::NAME]")
@shapes_option
@click.option("--target", help="sm_80, sm_90a or sm_100a.")
@click.option("--html", "page", metavar="FILE", help="Write a page with the changes highlighted.")
@json_option
@guarded
def ir(
    subject: str, shapes: dict[str, int], target: str | None, page: str | None, as_json: bool
) -> None:
    """Shows the program after every pass that changes it, as differences."""
    with tempfile.TemporaryDirectory() as folder, _dumping(folder):
        _compiled(_subject(subject, shapes), chosen_target(target))
        stages = [(path.stem, path.read_text()) for path in sorted(Path(folder).rglob("*"))
                  if path.is_file()]  # fmt: skip
    steps, before = [], ""
    for name, text in stages:
        if text != before:
            lines = list(difflib.unified_diff(before.splitlines(), text.splitlines(), "", name,
                                              lineterm="", n=2))  # fmt: skip
            steps.append({"stage": name, "text": text, "diff": "\n".join(lines[2:])})
        before = text
    if page:
        Path(page).write_text(_page(subject, steps), encoding="utf-8")
    shown = "\n\n".join(f"== {step['stage']}\n{step['diff']}" for step in steps)
    emit(document("ir", ok=True, subject=subject, stages=steps), shown, as_json)


def _page(subject: str, steps: list[dict[str, str]]) -> str:
    """The stages side by side with what was there before, changes highlighted."""
    table = difflib.HtmlDiff(wrapcolumn=100)
    parts, before = [], ""
    for step in steps:
        rows = table.make_table(before.splitlines(), step["text"].splitlines(), "before", "after",
                                context=True, numlines=2)  # fmt: skip
        parts.append(f"<h2>{html.escape(step['stage'])}</h2>{rows}")
        before = step["text"]
    style = (
        "body{font:14px system-ui}table.diff{font:12px monospace;border:0}"
        ".diff_add{background:#cfc}.diff_chg{background:#ffb}.diff_sub{background:#fcc}"
        ".diff_header{color:#999;padding:0 .5em}"
    )
    return (
        f"<!doctype html><meta charset='utf-8'><title>{html.escape(subject)}</title>"
        f"<style>{style}</style><h1>{html.escape(subject)}</h1>{''.join(parts)}"
    )


@click.command()
@click.argument("subject", metavar="FILE[::NAME]")
@shapes_option
@click.option("--target", help="sm_80, sm_90a or sm_100a.")
@click.option("--form", type=click.Choice(list(_FORMS)), default="ptx", show_default=True)
@click.option("--output", default=".", metavar="FOLDER", help="Where to write.")
@json_option
@guarded
def export(
    subject: str, shapes: dict[str, int], target: str | None, form: str, output: str, as_json: bool
) -> None:
    """Writes what the kernels of FILE became: CUDA C++, PTX, cubin, or SASS."""
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for kernel in _compiled(_subject(subject, shapes), chosen_target(target)):
        path = folder / f"{kernel.name}.{_ENDINGS[form]}"
        content = _FORMS[form](kernel)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        files.append({"kernel": kernel.name, "path": str(path), "bytes": path.stat().st_size})
    lines = [f"{each['path']}  {each['bytes']} bytes" for each in files]
    emit(document("export", ok=True, subject=subject, files=files), "\n".join(lines), as_json)


@click.command()
@request_options
@shapes_option
@click.option("--target", help="sm_80, sm_90a or sm_100a.")
@json_option
@guarded
def run(subject: str, target: str | None, as_json: bool, **options: Any) -> None:
    """Runs FILE once, as it stands; AssertionErrors end it with status 1."""
    program = program_of(request_of(subject, options))
    printed = io.StringIO()
    message = ""
    with contextlib.redirect_stdout(printed) if as_json else contextlib.nullcontext():
        try:
            judged(program.run(chosen_target(target)))
        except AssertionError as error:
            message = str(error) or "an assertion of the program failed"
    content = document(
        "run", ok=not message, subject=subject, output=printed.getvalue(), message=message
    )
    emit(content, message, as_json) if as_json or message else None
    raise SystemExit(1 if message else 0)
