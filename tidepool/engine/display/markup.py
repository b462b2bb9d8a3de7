"""Pulumi's colour markup: ``<{%fg 1%}>text<{%reset%}>``, and what becomes of it.

All text of the displays is made with this markup, and so is text of programs and providers that has
colours; it is rendered once, where it is written. Source: ``sdk/go/common/diag/colors/colors.go``.
"""

from __future__ import annotations

import re
from typing import Final

from tidepool.engine.events import Severity

RESET: Final = "<{%reset%}>"
BOLD: Final = "<{%bold%}>"
UNDERLINE: Final = "<{%underline%}>"
RED: Final = "<{%fg 1%}>"
GREEN: Final = "<{%fg 2%}>"
YELLOW: Final = "<{%fg 3%}>"
MAGENTA: Final = "<{%fg 5%}>"
BRIGHT_BLACK: Final = "<{%fg 8%}>"
BRIGHT_RED: Final = "<{%fg 9%}>"
BRIGHT_GREEN: Final = "<{%fg 10%}>"
BRIGHT_BLUE: Final = "<{%fg 12%}>"
BRIGHT_MAGENTA: Final = "<{%fg 13%}>"
BRIGHT_CYAN: Final = "<{%fg 14%}>"
HEADLINE: Final = BRIGHT_MAGENTA + BOLD

PREFIXES: Final[dict[Severity, tuple[str, str]]] = {
    "debug": (RESET, "debug: "),
    "info": ("", ""),
    "info#err": ("", ""),
    "warning": (YELLOW, "warning: "),
    "error": (RED, "error: "),
}

# A directive that was begun and not ended swallows the rest of the text, as it does in the CLI.
_DIRECTIVE: Final = re.compile(r"<\{%(.*?)%\}>|<\{%.*", re.DOTALL)
#: Cuts text into what is to be seen and the directives between.
PIECES: Final = re.compile(r"(<\{%(?:.*?%\}>|.*))", re.DOTALL)
_CODES: Final = {"reset": "0", "bold": "1", "underline": "4"}
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*[mK]")


def prefix(severity: Severity) -> str:
    """Return the beginning of a message: "error: " in its colour."""
    color, word = PREFIXES[severity]
    return f"{color}{word}{RESET}" if word else ""


def render(text: str, color: bool) -> str:
    """``text`` with its markup as ANSI colours, or without it."""
    if "<{%" not in text:
        return text
    return _DIRECTIVE.sub(_ansi if color else "", text)


def plain(text: str) -> str:
    """``text`` without its markup."""
    return render(text, color=False)


def without_ansi(text: str) -> str:
    """``text`` without ANSI colours and line erasures, which programs may print."""
    return _ANSI.sub("", text) if "\x1b" in text else text


def _ansi(match: re.Match[str]) -> str:
    directive = match[1]
    if directive is None:
        return ""
    code = _CODES.get(directive)
    if code is None:
        kind, _, number = directive.partition(" ")
        if kind not in ("fg", "bg") or not number.isdecimal():
            return ""  # not a directive that anyone knows: text of a program that looks like one
        code = f"{38 if kind == 'fg' else 48};5;{number}"
    return f"\x1b[{code}m"
