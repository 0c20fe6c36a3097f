#!/usr/bin/env python3
"""Assembles the changelog from the fragments in changes/.

    python scripts/changelog.py                    # print the section of the next release
    python scripts/changelog.py --release 0.2.0    # write it to CHANGELOG.md, delete the fragments

A fragment is a file changes/<slug>.md: a heading `### Added`, `### Changed`, `### Deprecated`,
`### Removed`, `### Fixed` or `### Security`, then one to three plain sentences for a user.
"""

from __future__ import annotations

import argparse
import datetime
import re
import sys
import textwrap
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Kinds of changes, in the order of the changelog.
KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
_UNRELEASED = "## [Unreleased]\n"
_WIDTH = 100


class FragmentError(ValueError):
    """A file in changes/ is no fragment."""


def read(folder: Path) -> dict[str, list[str]]:
    """Returns the texts of the fragments by kind, in the order of their file names.

    Raises:
        FragmentError: a file has no known heading, or no text.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(folder.glob("*.md")):
        heading, _, text = path.read_text().partition("\n")
        kind = heading.removeprefix("### ").strip()
        if not heading.startswith("### ") or kind not in KINDS:
            raise FragmentError(f"{path.name}: the first line is ### and one of {', '.join(KINDS)}")
        if not text.strip() or "\n#" in text:
            raise FragmentError(f"{path.name}: one heading, then one to three sentences")
        found[kind].append(" ".join(text.split()))
    return found


def section(fragments: dict[str, list[str]]) -> str:
    """Returns the Markdown of a release, without its heading."""
    parts = []
    for kind in KINDS:
        if fragments.get(kind):
            parts.append(f"### {kind}\n\n" + "\n".join(map(_item, fragments[kind])))
    return "\n\n".join(parts) + "\n" if parts else ""


def _item(text: str) -> str:
    options = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(text, _WIDTH, initial_indent="- ", subsequent_indent="  ", **options)


def release(changelog: str, version: str, date: str, text: str) -> str:
    """Returns a changelog with a release: what was unreleased, then the text of the fragments.

    Raises:
        FragmentError: the changelog has no unreleased section, or has the release already.
    """
    if _UNRELEASED not in changelog:
        raise FragmentError(f"CHANGELOG.md has no line {_UNRELEASED.strip()!r}")
    if f"## [{version}]" in changelog:
        raise FragmentError(f"CHANGELOG.md has {version} already")
    before, after = changelog.split(_UNRELEASED)
    following = re.search(r"^(?=## |\[)", after, re.MULTILINE)
    end = following.start() if following else len(after)
    unreleased, rest = after[:end].strip(), after[end:]
    body = "\n\n".join(part for part in (unreleased, text.strip()) if part)
    heading = f"## [{version}] - {date}\n"
    return f"{before}{_UNRELEASED}\n{heading}\n{body}\n\n{rest}".rstrip() + "\n"


def main() -> None:
    """Prints the section, or releases it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--release", metavar="VERSION", help="write it to CHANGELOG.md")
    parser.add_argument("--date", default=datetime.date.today().isoformat(), help="of the release")
    args = parser.parse_args()
    folder, changelog = ROOT / "changes", ROOT / "CHANGELOG.md"
    try:
        text = section(read(folder))
        if args.release is None:
            print(text, end="")
            return
        changelog.write_text(release(changelog.read_text(), args.release, args.date, text))
    except FragmentError as error:
        sys.exit(f"changelog.py: {error}")
    for path in folder.glob("*.md"):
        path.unlink()


if __name__ == "__main__":
    main()
