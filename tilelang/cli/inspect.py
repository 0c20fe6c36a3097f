"""``tilelang ir``, ``export`` and ``run``: show, write and run compiled kernels."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ..errors import TileLangError, UserError
from ..jit.kernel import JITKernel, compiling
from . import passes_page
from .options import chosen_target, request_of, request_options, shapes_option, target_option
from .output import document, emit, guarded, json_option
from .passes import changes, dumped
from .programs import Request, answering, judged, program_of, traced
from .supervise import supervised

_FORMS: dict[str, Callable[[JITKernel], str | bytes]] = {
    "cuda": JITKernel.get_kernel_source, "ptx": JITKernel.get_ptx,
    "cubin": lambda kernel: kernel.artifact.cubin, "sass": JITKernel.get_sass,
}  # fmt: skip
_ENDINGS = {"cuda": "cu", "ptx": "ptx", "cubin": "cubin", "sass": "sass"}


def _compiled(request: Request, target: str) -> list[JITKernel]:
    """Returns the kernels that a program compiles, one of each name."""
    program = program_of(request)
    found: dict[str, JITKernel] = {}

    def keep(kernel: JITKernel) -> None:
        found.setdefault(kernel.name, kernel)

    with answering(), compiling(keep), contextlib.redirect_stdout(io.StringIO()):
        program.run(target)
    if not found:
        raise UserError(
            f"{request.path.name} compiles no kernel when it runs",
            notes=[f"name a kernel of the file: {request.path}::NAME --shapes M=128,..."],
        )
    return list(found.values())


def _subject(subject: str, shapes: dict[str, int]) -> Request:
    path, _, name = subject.partition("::")
    return Request(Path(path), name, shapes=shapes)


@click.command()
@click.argument("subject", metavar="FILE[::NAME]")
@shapes_option
@target_option()
@click.option(
    "--html",
    "page",
    metavar="FILE",
    help="Write a page with source, passes, CUDA C++ and PTX side by side.",
)
@json_option
@supervised
@guarded
def ir(
    subject: str, shapes: dict[str, int], target: str | None, page: str | None, as_json: bool
) -> None:
    """Show how each compiler pass changes the program.

    Passes that change nothing are left out, and each difference is against the last change.
    """
    with dumped() as folder:
        kernels = _compiled(_subject(subject, shapes), chosen_target(target))
        found = list(changes(folder))
    if page:
        Path(page).write_text(passes_page.page(subject, found, kernels), encoding="utf-8")
    stages = [
        {"kernel": each.kernel, "stage": f"{each.number:02d}_{each.name}", "text": each.text,
         "ms": each.milliseconds, "diff": each.diff}
        for each in found
    ]  # fmt: skip
    shown = "\n\n".join(f"== {each['kernel']}: {each['stage']}\n{each['diff']}" for each in stages)
    emit(document("ir", ok=True, subject=subject, stages=stages), shown, as_json)


@click.command()
@click.argument("subject", metavar="FILE[::NAME]")
@shapes_option
@target_option()
@click.option("--form", type=click.Choice(list(_FORMS)), default="ptx", show_default=True,
              help="Form of the code.")  # fmt: skip
@click.option(
    "--output", default=".", metavar="FOLDER", show_default=True, help="Folder to write to."
)
@json_option
@supervised
@guarded
def export(
    subject: str, shapes: dict[str, int], target: str | None, form: str, output: str, as_json: bool
) -> None:
    """Write the generated CUDA C++, PTX, cubin or SASS of the kernels in FILE."""
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
@target_option()
@json_option
@guarded
def run(subject: str, target: str | None, as_json: bool, **options: Any) -> None:
    """Run FILE once as it stands; a failed assertion gives exit status 1."""
    request = request_of(subject, options)
    program = program_of(request)
    printed = io.StringIO()
    message = ""
    with contextlib.redirect_stdout(printed) if as_json else contextlib.nullcontext():
        try:
            judged(program.run(chosen_target(target, request.path)))
        except AssertionError as error:
            message = str(error) or "an assertion of the program failed"
        except (TileLangError, OSError):
            raise
        except Exception as error:
            message = traced(error, request.path)
    content = document(
        "run", ok=not message, subject=subject, output=printed.getvalue(), message=message
    )
    emit(content, message, as_json) if as_json or message else None
    raise SystemExit(1 if message else 0)
