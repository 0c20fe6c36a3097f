"""``tilelang check`` of many kernels, and ``tilelang merge`` of its shards."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from ..checks.check import Check, check_of
from ..checks.many import check_many
from ..errors import UserError
from .output import (
    OK,
    RAN,
    REFUSED,
    WRONG,
    bad,
    document,
    emit,
    faint,
    good,
    guarded,
    json_option,
)  # fmt: skip
from .programs import text_of

#: Exit statuses of the verdicts, the worst first; None: there is no verdict.
STATUS = {
    "failed": WRONG, "wrong": WRONG, "racy": WRONG, None: REFUSED, "incomplete": REFUSED,
    "ran": RAN, "right": OK,
}  # fmt: skip
_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])


class Shard(click.ParamType):
    """One of several equal parts: ``2/4``."""

    name = "I/N"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(r"(\d+)/(\d+)", value)
        number, count = map(int, found.groups()) if found else (0, 0)
        if not 1 <= number <= count:
            self.fail(f"{value!r}: expected a number and how many there are, like 2/4", param, ctx)
        return number, count


_OPTIONS = (
    click.option("--jobs", type=click.IntRange(min=1), metavar="NUMBER",
                 help="Many checks: how many run at a time. Default: one for each core."),
    click.option("--shard", type=Shard(), help="Many checks: run one of N equal parts only."),
    click.option("--cache", type=click.Path(file_okay=False), metavar="FOLDER",
                 help="Keep verdicts in a folder, which several machines may share, and take them "
                      "from there if nothing that they depend on has changed."),
)  # fmt: skip


def many_options(function: _Decorated) -> _Decorated:
    """Adds the options of many checks."""
    for decorate in reversed(_OPTIONS):
        function = decorate(function)
    return function


class CheckCommand(click.Command):
    """``tilelang check``: hands several subjects, or the options of many checks, to :func:`_many`.

    Words after ``--`` are arguments of the script. ``--json FOLDER/`` writes into a folder.
    """

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:  # fmt: skip
        line = _Line(self, args)
        if not line.many:
            return super().make_context(info_name, args, parent, **extra)
        return _many.make_context(info_name, line.own, parent, obj=line)


class _Line:
    """The words of a command line.

    Attributes:
        subjects: files, and ``@FILE`` for lists of checks.
        own: options of many checks.
        common: options of every check.
        argv: arguments of the script.
        folder: of ``--json FOLDER/``; "" if there is none.
    """

    def __init__(self, command: click.Command, args: Sequence[str]) -> None:
        end = args.index("--") if "--" in args else len(args)
        words, self.argv = list(args[:end]), list(args[end + 1 :])
        self.subjects: list[str] = []
        self.own: list[str] = []
        self.common: list[str] = []
        self.folder = ""
        options = {name: each for each in command.params if isinstance(each, click.Option)
                   for name in each.opts}  # fmt: skip
        own = {name for each in _many.params for name in each.opts}
        chosen = False
        while words:
            word = words.pop(0)
            name, equals, _ = word.partition("=")
            option = options.get(name)
            if option is None and not name.startswith("-"):
                self.subjects.append(word)
                continue
            group = [word]
            if option is not None and not option.is_flag and not equals and words:
                group.append(words.pop(0))
            if name == "--json" and words and words[0].endswith("/"):
                self.folder = words.pop(0)
            chosen |= name in ("--jobs", "--shard", "--cache") or bool(self.folder)
            (self.own if name in own else self.common).extend(group)
        lists = any(each.startswith("@") for each in self.subjects)
        self.many = not {"--help", "-h"} & {*self.common} and bool(
            self.subjects and (lists or chosen or len(self.subjects) > 1)
        )

    def checks(self) -> list[Check]:
        """Returns the checks; relative paths begin in the current folder."""
        lines: list[list[str]] = []
        for subject in self.subjects:
            if not subject.startswith("@"):
                lines.append([subject])
                continue
            for line in text_of(Path(subject[1:])).splitlines():
                words = shlex.split(line, comments=True)
                lines += [words] if words else []
        argv = ["--", *self.argv] if self.argv else []
        return [check_of([*line, *self.common, *argv]) for line in lines]


@click.command("check")
@many_options
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), default=600.0)
@json_option
@click.pass_obj
@guarded
def _many(
    line: _Line, jobs: int | None, shard: tuple[int, int] | None, cache: str | None,
    timeout: float, as_json: bool,
) -> None:  # fmt: skip
    checks = line.checks()
    number, count = shard or (1, 1)
    chosen = range(number - 1, len(checks), count)
    begin = time.monotonic()
    found = check_many([checks[i] for i in chosen], cache=cache, jobs=jobs, time_limit=timeout)
    seconds = time.monotonic() - begin
    rows = [
        {"number": i, "check": str(checks[i]), "document": each}
        for i, each in zip(chosen, found, strict=True)
    ]
    content = _content(rows, len(checks))
    if shard is not None:
        content["shard"] = [number, count]
    if line.folder:
        _write(Path(line.folder), content)
    speed = f"{len(rows)} checks in {seconds:.1f} s, {3600 * len(rows) / seconds:.0f} an hour"
    emit(content, f"{_text(content)}\n{faint(speed)}", as_json and not line.folder)
    raise SystemExit(_status(content))


def _content(rows: list[dict[str, Any]], total: int) -> dict[str, Any]:
    verdicts = {each["document"].get("verdict") for each in rows}
    worst = next((each for each in STATUS if each in verdicts), "right")
    return document("checks", ok=worst == "right", verdict=worst, total=total, checks=rows)


def _status(content: dict[str, Any]) -> int:
    return STATUS[content["verdict"]]


def _text(content: dict[str, Any]) -> str:
    lines, counts = [], Counter[str]()
    for row in content["checks"]:
        verdict = row["document"].get("verdict") or "no verdict"
        counts[verdict] += 1
        mark = verdict.ljust(10)
        if STATUS.get(verdict) == WRONG:
            mark = bad(verdict.upper().ljust(10))
        elif verdict == "right":
            mark = good(mark)
        lines.append(f"{mark} {row['check']}")
        lines += [f"           {each}" for each in [_reason(row["document"])] if each]
    lines.append(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    return "\n".join(lines)


def _reason(found: dict[str, Any]) -> str:
    """Returns the first fault of a check in one line; "" if there is none."""
    faults = [str(found.get("error", ""))]
    for target in found.get("targets", ()):
        faults += [run["message"] for run in target["runs"]]
        faults += [each["message"] for each in target["inputs"] if each["ok"] is False]
        faults += [
            f"{each['kind']} at {each['place']}: {each['text']}"
            for kernel in target["kernels"] for each in kernel["findings"]
        ]  # fmt: skip
    return next((fault.strip().splitlines()[0] for fault in faults if fault.strip()), "")


def _write(folder: Path, content: dict[str, Any]) -> None:
    """Writes a document into a folder, beside those of other shards."""
    folder.mkdir(parents=True, exist_ok=True)
    number, count = content.get("shard", (1, 1))
    name = "checks.json" if count == 1 else f"checks-{number}-of-{count}.json"
    (folder / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


@click.command()
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER...")
@json_option
@guarded
def merge(folders: tuple[str, ...], as_json: bool) -> None:
    """Join the shards of a check, from folders that `check --shard I/N --json FOLDER/` wrote.

    The document is the same as that of all checks at once. The exit status is as for check.
    """
    paths = [path for each in folders for path in sorted(Path(each).glob("checks*.json"))]
    if not paths:
        raise UserError(
            f"no results of a check in {', '.join(folders)}",
            notes=["`tilelang check --shard 1/2 --json FOLDER/` writes them: checks*.json"],
        )
    content = _merged({path: _read(path) for path in paths})
    emit(content, _text(content), as_json)
    raise SystemExit(_status(content))


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(text_of(path))
        if content["schema"] == "tilelang.checks":
            return dict(content)
    except (ValueError, KeyError, TypeError):
        pass
    raise UserError(f"{path} is no document of tilelang check --shard --json")


def _merged(parts: dict[Path, dict[str, Any]]) -> dict[str, Any]:
    """Joins documents.

    Raises:
        UserError: they are of different checks, or some checks are missing.
    """
    first, total = next((path, part["total"]) for path, part in parts.items())
    rows: dict[int, dict[str, Any]] = {}
    for path, part in parts.items():
        if part["total"] != total:
            raise UserError(
                f"{path} belongs to {part['total']} checks, and {first} to {total}: give the "
                "shards of one run"
            )
        for row in part["checks"]:
            known = rows.setdefault(row["number"], row)
            if known != row:
                raise UserError(f"{path} has another verdict on {row['check']} than before")
    missing = [str(i + 1) for i in range(total) if i not in rows]
    if missing:
        some = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise UserError(f"{len(missing)} of {total} checks are missing: numbers {some}")
    return _content([rows[i] for i in range(total)], total)
