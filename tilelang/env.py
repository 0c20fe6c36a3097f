"""The environment variables that TileLang reads, and the folders it uses.

======================================  ==========================================================
``TILELANG_CACHE_DIR``                  folder of the disk cache (default: the user's cache folder)
``TILELANG_DISABLE_CACHE``              1: neither read nor write the disk cache
``TILELANG_AUTO_TUNING_DISABLE_CACHE``  1: search anew, whatever earlier searches found
``TILELANG_DEFAULT_TARGET``             the target that ``"auto"`` stands for
``TILELANG_FULL_TRACEBACK``             1: keep the frames of TileLang in tracebacks of user errors
``TILELANG_DUMP_IR``                    folder that receives the program after every pass
``TILELANG_VERIFY``                     1: check the program after every pass (for passes' authors)
``TILELANG_VERIFY_SYNCHRONIZATION``     1: check what every compiled kernel waits for
``TILELANG_REMARKS``                    1: print the remarks of the passes
======================================  ==========================================================
"""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path
from typing import Any

from .errors import ConfigError, described


def flag(name: str) -> bool:
    """Returns whether the environment variable is set to something but 0, false or no."""
    return os.environ.get(name, "").strip().lower() not in ("", "0", "false", "no", "off")


def cache_directory() -> Path:
    """Returns the folder of the disk cache; it need not exist yet."""
    chosen = os.environ.get("TILELANG_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("tilelang-sm100", appauthor=False))


def default_target() -> str | None:
    """Returns the target named by ``TILELANG_DEFAULT_TARGET``, or None."""
    return os.environ.get("TILELANG_DEFAULT_TARGET") or None


_enabled = True


def enable_cache() -> None:
    """Lets kernels be read from and written to the disk cache (the default)."""
    global _enabled
    _enabled = True


def disable_cache() -> None:
    """Keeps kernels from being read from or written to the disk cache."""
    global _enabled
    _enabled = False


def is_cache_enabled() -> bool:
    """Returns whether the disk cache is used; ``TILELANG_DISABLE_CACHE=1`` overrules all."""
    return _enabled and not flag("TILELANG_DISABLE_CACHE")


_SETTINGS = ("TILELANG_", "TL_", "CUDA_")


class Environment:
    """The settings as attributes: ``env.TILELANG_CACHE_DIR``; None where one is not set.

    Assigning one sets the environment variable, for this process and the processes that it
    starts; None removes it.
    """

    def __getattr__(self, name: str) -> str | None:
        if not name.startswith(_SETTINGS):
            raise AttributeError(f"no setting is called {name!r}")
        return str(cache_directory()) if name == "TILELANG_CACHE_DIR" else os.environ.get(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith(_SETTINGS):
            raise AttributeError(f"no setting is called {name!r}")
        if value is None:
            os.environ.pop(name, None)
        elif isinstance(value, str | bool | int | os.PathLike):
            os.environ[name] = str(int(value)) if isinstance(value, bool) else str(value)
        else:
            raise ConfigError(f"{name} is a text or a path, not {described(value)}")

    def is_cache_enabled(self) -> bool:
        """Returns whether kernels are read from and written to the disk cache."""
        return is_cache_enabled()

    def enable_cache(self) -> None:
        """Enables the disk cache, as :func:`tilelang.enable_cache` does."""
        enable_cache()

    def disable_cache(self) -> None:
        """Disables the disk cache, as :func:`tilelang.disable_cache` does."""
        disable_cache()


env = Environment()


class _Module(types.ModuleType):
    """``tilelang.env`` itself has the settings, too, as programs take either for the other."""

    def __getattr__(self, name: str) -> Any:
        return getattr(env, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith(_SETTINGS):
            setattr(env, name, value)
        else:
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Module
