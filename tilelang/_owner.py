"""The distribution ``tilelang-sm100`` installs ``import tilelang``; another one does so, too."""

from __future__ import annotations

import warnings
from importlib import metadata

DISTRIBUTION = "tilelang-sm100"
#: The distribution on public indices that installs a package of the same name.
OTHER = "tilelang"


def advice(others: str) -> str:
    """Returns what to do about other distributions that install the package."""
    return (
        f"{others} installs `import tilelang`, too, and may have overwritten files: "
        f"pip uninstall {others.replace(',', '')}, then install {DISTRIBUTION} again"
    )


def warn_of_another() -> None:
    """Warns if the other distribution is installed beside this one."""
    try:
        version = metadata.version(OTHER)
    except metadata.PackageNotFoundError:
        return
    warnings.warn(f"the distribution {OTHER} {version}: {advice(OTHER)}", stacklevel=3)
