"""Schedules of warp roles as data: ``T.WSSchedule`` and its parts.

A schedule divides a kernel that is written for all threads: it says which warps execute which of
its statements, and through which buffers they hand tiles over. The kernel computes what its
statements say in their order, and the compiler divides them into roles of its own. A schedule is
checked against the kernel, and leaves a remark.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, ParamSpec, TypeVar, cast

from .. import errors
from ..ir import span
from ..ir.buffer import Buffer
from .builder import in_block
from .ignored import remark_by_itself

P = ParamSpec("P")
R = TypeVar("R")

#: The key of an operator's id: ``T.copy(A, S, annotations={T.WSID: "load"})``.
WSID = "ws_op_id"


class WSSyncKind(Enum):
    """The action of a role on a pipeline: it fills a slot, or uses it."""

    PRODUCER_ACQUIRE = "producer_acquire"
    PRODUCER_COMMIT = "producer_commit"
    CONSUMER_WAIT = "consumer_wait"
    CONSUMER_RELEASE = "consumer_release"


@dataclass(frozen=True)
class WSOpRef:
    """A statement of the kernel by its id; a string stands for it as well."""

    id: str


@dataclass(frozen=True)
class WSSync:
    """A step of a role at a pipeline.

    Attributes:
        kind: what it does.
        pipeline: the name of a :class:`WSPipeline`.
        stage: how many iterations later the steps of this stage run.
    """

    kind: WSSyncKind
    pipeline: str
    stage: int = 0

    @classmethod
    def producer_acquire(cls, pipeline: str, stage: int = 0) -> WSSync:
        """Waits for an empty slot."""
        return cls(WSSyncKind.PRODUCER_ACQUIRE, pipeline, stage)

    @classmethod
    def producer_commit(cls, pipeline: str, stage: int = 0) -> WSSync:
        """The slot is full."""
        return cls(WSSyncKind.PRODUCER_COMMIT, pipeline, stage)

    @classmethod
    def consumer_wait(cls, pipeline: str, stage: int = 0) -> WSSync:
        """Waits for a full slot."""
        return cls(WSSyncKind.CONSUMER_WAIT, pipeline, stage)

    @classmethod
    def consumer_release(cls, pipeline: str, stage: int = 0) -> WSSync:
        """The slot is empty."""
        return cls(WSSyncKind.CONSUMER_RELEASE, pipeline, stage)


#: A step of a role: a statement, or a step at a pipeline.
WSInstr = str | WSOpRef | WSSync


@dataclass(frozen=True)
class WSRole:
    """Warps ``warps_lo`` to below ``warps_hi``, up to ``max_nreg`` registers a thread (0: any)."""

    name: str
    warps_lo: int
    warps_hi: int
    max_nreg: int = 0


@dataclass(frozen=True)
class WSPipeline:
    """Buffers that one role fills and another uses, in ``depth`` slots."""

    name: str
    buffers: Sequence[Any]
    depth: int


@dataclass(frozen=True)
class WSScope:
    """The work of each role in a loop, by the loop's id, or in the kernel: ``WSScope.ROOT``."""

    ROOT: ClassVar[str] = "root"

    id: str
    bodies: Mapping[str, Sequence[WSInstr]] = field(default_factory=dict)


@dataclass(frozen=True)
class WSSchedule:
    """Roles, the pipelines between them, and what each does in which loop.

    Attributes:
        num_warps: of a block, a multiple of 4.
        roles, pipelines, scopes: lists of the parts.
    """

    num_warps: int
    roles: Sequence[WSRole]
    pipelines: Sequence[WSPipeline]
    scopes: Sequence[WSScope]


def annotate_ws_schedule(schedule: WSSchedule) -> None:
    """Describes the roles of the kernel. The compiler makes its own; it leaves a remark.

    Raises:
        SemanticsError: no schedule, or one that contradicts itself or the kernel: warps of two
            roles, unknown names, a pipeline without both sides, ids that no statement has.
    """
    builder = in_block("T.annotate_ws_schedule")
    if not isinstance(schedule, WSSchedule):
        raise _wrong(f"`{schedule}` is no T.WSSchedule")
    if schedule.num_warps < 4 or schedule.num_warps % 4:
        raise _wrong(
            f"num_warps={schedule.num_warps} is no multiple of 4: registers belong to four"
        )
    _check_roles(schedule)
    _check_pipelines(schedule)
    _check_scopes(schedule)
    builder.ws_schedule = schedule, span.here()
    why = "the compiler divides the kernel's statements among warps of its own"
    remark_by_itself("T.annotate_ws_schedule", why, ["..."], {})


def _wrong(what: str, *notes: str) -> errors.SemanticsError:
    return errors.SemanticsError(
        f"T.annotate_ws_schedule: {what}", span=span.here(), notes=list(notes)
    )


def _unique(kind: str, names: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for name in names:
        if name in found:
            raise _wrong(f"there are two {kind}s {name!r}")
        found.add(name)
    return found


def _check_roles(schedule: WSSchedule) -> None:
    _unique("role", (role.name for role in schedule.roles))
    owner: dict[int, str] = {}
    for role in schedule.roles:
        if not 0 <= role.warps_lo < role.warps_hi <= schedule.num_warps:
            raise _wrong(
                f"role {role.name!r} has warps {role.warps_lo} to below {role.warps_hi} of "
                f"{schedule.num_warps}"
            )
        for warp in range(role.warps_lo, role.warps_hi):
            if warp in owner:
                raise _wrong(f"warp {warp} belongs to roles {owner[warp]!r} and {role.name!r}")
            owner[warp] = role.name


def _check_pipelines(schedule: WSSchedule) -> None:
    _unique("pipeline", (each.name for each in schedule.pipelines))
    for each in schedule.pipelines:
        if each.depth < 1:
            raise _wrong(f"pipeline {each.name!r} has depth {each.depth}; it is 1 or more")
        for buffer in each.buffers:
            if not isinstance(buffer, Buffer):
                raise _wrong(f"pipeline {each.name!r} holds `{buffer}`, which is no buffer")


_SIDES = {
    WSSyncKind.PRODUCER_ACQUIRE: WSSyncKind.PRODUCER_COMMIT,
    WSSyncKind.CONSUMER_WAIT: WSSyncKind.CONSUMER_RELEASE,
}


def _check_scopes(schedule: WSSchedule) -> None:
    roles = {role.name for role in schedule.roles}
    pipelines = {each.name for each in schedule.pipelines}
    _unique("scope", (scope.id for scope in schedule.scopes))
    used: set[tuple[str, WSSyncKind]] = set()
    for scope in schedule.scopes:
        for role, body in scope.bodies.items():
            if role not in roles:
                raise _wrong(f"scope {scope.id!r} has a body of {role!r}, which is no role")
            used |= _check_body(f"{role!r} in scope {scope.id!r}", body, pipelines)
    for name in sorted(pipelines):
        for kind, side in (
            (WSSyncKind.PRODUCER_COMMIT, "fills"),
            (WSSyncKind.CONSUMER_WAIT, "uses"),
        ):
            if (name, kind) not in used:
                raise _wrong(f"no role {side} pipeline {name!r}")


def _check_body(
    where: str, body: Sequence[WSInstr], pipelines: set[str]
) -> set[tuple[str, WSSyncKind]]:
    """Returns what the body does to pipelines: each is opened and closed in turn."""
    open_spans: dict[str, WSSync] = {}
    used: set[tuple[str, WSSyncKind]] = set()
    for step in body:
        if not isinstance(step, WSSync):
            continue
        if step.pipeline not in pipelines:
            raise _wrong(f"{where}: there is no pipeline {step.pipeline!r}")
        used.add((step.pipeline, step.kind))
        opened = open_spans.pop(step.pipeline, None)
        if step.kind in _SIDES and opened is None:
            open_spans[step.pipeline] = step
        elif opened is None or _SIDES[opened.kind] is not step.kind or opened.stage != step.stage:
            raise _wrong(
                f"{where}: {step.kind.value} of pipeline {step.pipeline!r} at stage {step.stage} "
                f"comes after {'nothing' if opened is None else _named(opened)}",
                "producer_acquire and producer_commit, consumer_wait and consumer_release come in "
                "pairs of one stage",
            )
    for opened in open_spans.values():
        raise _wrong(f"{where}: {_named(opened)} of pipeline {opened.pipeline!r} is not closed")
    return used


def _named(step: WSSync) -> str:
    return f"{step.kind.value} at stage {step.stage}"


def named(function: Callable[P, R]) -> Callable[P, R]:
    """Gives an operator or a loop the argument ``annotations``: ``{T.WSID: "load"}``, its id.

    Its keys may also name the operator's keyword arguments: ``{"disable_tma": True}``.
    """
    signature = inspect.signature(function)
    options_of = {
        name
        for name, parameter in signature.parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }

    @functools.wraps(function)
    def operator(*args: Any, annotations: Any = None, **options: Any) -> Any:
        given = {key: value for key, value in (annotations or {}).items() if key in options_of}
        _note(annotations, given)
        return function(*args, **{**options, **given})

    parameters = list(signature.parameters.values())
    extra = inspect.Parameter("annotations", inspect.Parameter.KEYWORD_ONLY, default=None)
    last = len(parameters) - (parameters[-1].kind is inspect.Parameter.VAR_KEYWORD)
    parameters.insert(last, extra)
    operator.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return cast("Callable[P, R]", operator)


def _note(annotations: Mapping[str, Any] | None, given: Container[str]) -> None:
    """Keeps the id that an operator or a loop has for a schedule.

    Other keys than those of arguments leave a remark.
    """
    if annotations is None:
        return
    builder = in_block("annotations=")
    for key, value in annotations.items():
        if key == WSID:
            _name(builder, str(value))
        elif key not in given:
            remark_by_itself("annotations=", "no pass of this compiler reads it", [repr(key)], {})


def _name(builder: Any, name: str) -> None:
    if name in builder.ws_ids:
        raise errors.SemanticsError(f"two statements have the id {name!r}", span=span.here())
    builder.ws_ids.add(name)


class _Operator:
    """A `with` block that one id names."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        return None


def ws_op(op_id: str) -> _Operator:
    """``with T.ws_op("id"):`` gives the statements in it an id for a :class:`WSSchedule`."""
    _name(in_block("T.ws_op"), str(op_id))
    return _Operator()


def check_ids(builder: Any) -> None:
    """Refuses a schedule of statements that the kernel, which ends here, does not have."""
    if builder.ws_schedule is None:
        return
    schedule, where = builder.ws_schedule
    steps = (
        step.id if isinstance(step, WSOpRef) else step
        for scope in schedule.scopes
        for body in scope.bodies.values()
        for step in (scope.id, *body)
        if not isinstance(step, WSSync)
    )
    for step in steps:
        if step not in builder.ws_ids and step != WSScope.ROOT:
            raise errors.SemanticsError(
                f"T.annotate_ws_schedule: no statement of the kernel has the id {step!r}",
                span=where,
                notes=[f'annotations={{T.WSID: "{step}"}}, or `with T.ws_op("{step}"):`'],
            )
