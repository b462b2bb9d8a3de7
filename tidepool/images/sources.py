"""Chooses those of the machine's own package sources that serve a release. Pure; apt's two ways to write them, both.

What is chosen goes into apt's private folder for one run, and nowhere else: not into recipe, lock or image.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

#: One line of a ``*.list`` file: deb [options] uri suite component...
_LINE = re.compile(r"deb\s+(?P<options>\[[^\]]*\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<components>\S.*)")


@dataclass(frozen=True)
class SourceFile:
    """A file of package sources: ``form`` is what its name ends with, as apt goes by that."""

    form: Literal["list", "sources"]
    text: str


def suites_of(release: str) -> tuple[str, ...]:
    """Return the suites that are one Debian release: as it came out, its updates, its security updates."""
    security = f"{release}/updates" if release == "buster" else f"{release}-security"
    return release, f"{release}-updates", security


def sources_for(release: str, files: Iterable[SourceFile]) -> tuple[SourceFile, ...]:
    """Return the part of ``files`` that serves ``release``; keys and options stay as they are, other suites are left out."""
    suites = suites_of(release)
    chosen = []
    for file in files:
        kept = _lines(file.text, suites) if file.form == "list" else _stanzas(file.text, suites)
        if kept:
            chosen.append(SourceFile(file.form, kept))
    return tuple(chosen)


def sources_beside(release: str, known: Iterable[str], files: Iterable[SourceFile]) -> tuple[SourceFile, ...]:
    """Return what serves ``release`` if the mirror that serves another of the ``known`` releases has all of them.

    Debian's mirrors do, and apt checks what they give by the keys of the machine's own Debian.
    """
    files = tuple(files)
    for other in known:
        if chosen := sources_for(other, files):
            names = dict(zip(suites_of(other), suites_of(release), strict=True))
            return tuple(SourceFile(file.form, _renamed(file, names)) for file in chosen)
    return ()


def suites_in(files: Iterable[SourceFile]) -> tuple[str, ...]:
    """Return all the suites that the files name, each once."""
    found: dict[str, None] = {}
    for file in files:
        if file.form == "list":
            for line in file.text.splitlines():
                if match := _LINE.fullmatch(line.split("#")[0].strip()):
                    found[match["suite"]] = None
        else:
            for stanza in _split(file.text):
                found.update(dict.fromkeys(_field(stanza, "Suites").split()))
    return tuple(found)


def _lines(text: str, suites: tuple[str, ...]) -> str:
    kept = []
    for line in text.splitlines():
        match = _LINE.fullmatch(line.split("#")[0].strip())
        if match and match["suite"] in suites:
            kept.append(match[0] + "\n")
    return "".join(kept)


def _stanzas(text: str, suites: tuple[str, ...]) -> str:
    kept = []
    for stanza in _split(text):
        serve = [suite for suite in _field(stanza, "Suites").split() if suite in suites]
        is_on = _field(stanza, "Enabled").lower() not in ("no", "false", "0", "off", "without", "disable")
        if serve and is_on and "deb" in _field(stanza, "Types").split():
            fields = [f for f in re.split(r"\n(?=\S)", stanza) if not re.match(r"(?i)(suites|types)\s*:", f)]
            kept.append("\n".join(["Types: deb", f"Suites: {' '.join(serve)}", *fields]) + "\n")
    return "\n".join(kept)


def _renamed(file: SourceFile, names: Mapping[str, str]) -> str:
    if file.form == "sources":
        return re.sub(
            r"(?m)^Suites: .*$", lambda m: " ".join(names.get(word, word) for word in m[0].split()), file.text
        )
    lines = []
    for line in file.text.splitlines():
        match = _LINE.fullmatch(line)
        assert match is not None
        begin, end = match.span("suite")
        lines.append(f"{line[:begin]}{names[match['suite']]}{line[end:]}\n")
    return "".join(lines)


def _split(text: str) -> list[str]:
    without_comments = "\n".join(line.rstrip() for line in text.splitlines() if not line.startswith("#"))
    return [stanza.strip("\n") for stanza in re.split(r"\n{2,}", without_comments) if stanza.strip()]


def _field(stanza: str, name: str) -> str:
    match = re.search(rf"(?im)^{name}\s*:(.*(?:\n[ \t].*)*)", stanza)
    return " ".join(match[1].split()) if match else ""
