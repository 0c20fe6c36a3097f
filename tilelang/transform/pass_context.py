"""``with PassContext(config=...)``: options for whatever is compiled inside."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from .. import target as targets
from ..errors import UnsupportedError
from . import pass_config

_entered: ContextVar[tuple[PassContext, ...]] = ContextVar("pass_context", default=())
#: Contexts that are entered in this thread, innermost last.
entered = _entered.get


class PassContext:
    """Options of the compiler. Options of a call have precedence.

    Attributes:
        config: key -> value, as ``pass_configs`` of :func:`tilelang.compile`.
    """

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Sequence[str] | None = None,
        disabled_pass: Sequence[str] | None = None,
        instruments: Sequence[Any] | None = None,
        config: Mapping[Any, Any] | None = None,
    ) -> None:
        """Checks the options.

        Args:
            opt_level: accepted; the compiler has one level.
            required_pass, disabled_pass, instruments: none.
            config: key -> value.

        Raises:
            UnsupportedError: passes or instruments, which are another compiler's.
            ConfigError: an unknown key, or a value of the wrong type.
        """
        del opt_level
        if required_pass or disabled_pass or instruments:
            raise UnsupportedError(
                "PassContext takes config alone",
                notes=["tilelang.transform.pipeline() lists the passes of this compiler"],
            )
        pass_config.normalize(config)
        self.config = {str(key): value for key, value in (config or {}).items()}

    def __enter__(self) -> PassContext:
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, *_: Any) -> None:
        _entered.set(_entered.get()[:-1])

    @staticmethod
    def current() -> PassContext:
        """Returns the innermost that is entered; one without options outside of all."""
        return (_entered.get() or (PassContext(),))[-1]


def with_surrounding(configs: Mapping[Any, Any] | None) -> dict[Any, Any]:
    """Returns options with the ones of the surrounding context; ``options`` have precedence."""
    given = {str(key): value for key, value in (configs or {}).items()}
    return {**PassContext.current().config, **given} if _entered.get() else given


def surroundings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns options of a compilation with ``target`` and ``pass_configs`` as they are here."""
    return {
        **options,
        "target": targets.resolve(options.get("target", "auto")),
        "pass_configs": with_surrounding(options.get("pass_configs")),
    }


@contextlib.contextmanager
def outside() -> Iterator[None]:
    """Leaves what surrounds: for functions that have taken it into their options."""
    token = _entered.set(())
    try:
        with targets.outside():
            yield
    finally:
        _entered.reset(token)


__all__ = ["PassContext", "entered", "outside", "surroundings", "with_surrounding"]
