"""Pages as HTML, each whole in itself: one look for dark and for light, tables, and figures with their values behind them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Final

#: Colours have names, so that drawings within a page take those of its side.
_STYLE: Final = """
:root { color-scheme: light dark; --ink: #222; --paper: #fff; --faint: #d9d9d9; --good: #176f2c; --bad: #a3261b; --link: #0b57a4; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e4e4; --paper: #16181b; --faint: #4a4d52; --good: #6cc985; --bad: #f08a80; --link: #8ab8ee; }
}
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; color: var(--ink); background: var(--paper); }
a { color: var(--link); } code { font-size: 90%; }
table { border-collapse: collapse; margin: 0.5em 0 1.5em; } th, td { text-align: left; padding: 0.2em 1.2em 0.2em 0; vertical-align: top; }
thead th { border-bottom: 1px solid var(--ink); } tbody th { font-weight: normal; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.succeeded { color: var(--good); } .failed, .deadline, .budget, .cancelled { color: var(--bad); }
.warning { border: 2px solid var(--bad); padding: 0.6em 1em; }
figure { margin: 0.5em 0 1.5em; } figcaption { margin-top: 0.3em; } summary { cursor: pointer; }
.scrolls { overflow-x: auto; } img, svg { max-width: 100%; height: auto; }
"""
_NUMBER: Final = re.compile(r"[-+]?[0-9][0-9,]*(\.[0-9]+)?( %)?")


def document(title: str, lines: Iterable[str]) -> str:
    """Return a whole page of ``lines``, which are HTML."""
    return "\n".join(
        (
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            *lines,
            "</body></html>",
            "",
        )
    )


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    link: Callable[[str], str] | None = None,
    level: int = 2,
) -> Iterable[str]:
    """Yield a table of texts below a heading, with columns of numbers flush right; nothing where there are no rows.

    Args:
        title: the heading's HTML; none where it is empty.
        columns: their heads, as texts.
        rows: texts; the first of each names the row.
        link: where the first cells lead to.
        level: of the heading: 2 below the page's own.
    """
    listed = list(rows)
    if not listed:
        return
    if title:
        yield f"<h{level}>{title}</h{level}>"
    kinds = [' class="number"' if are_numbers(cells) else "" for cells in zip(*listed, strict=True)]
    heads = "".join(
        f'<th scope="col"{kind}>{escape(head)}</th>' for head, kind in zip(columns, kinds, strict=True)
    )
    yield f'<div class="scrolls"><table><thead><tr>{heads}</tr></thead><tbody>'
    for first, *others in listed:
        named = escape(first) if link is None else f'<a href="{escape(link(first))}">{escape(first)}</a>'
        cells = "".join(
            f"<td{kind}>{escape(text)}</td>" for text, kind in zip(others, kinds[1:], strict=True)
        )
        yield f'<tr><th scope="row"{kinds[0]}>{named}</th>{cells}</tr>'
    yield "</tbody></table></div>"


def figure(drawing: str, caption: str, values: Iterable[str] = ()) -> Iterable[str]:
    """Yield a drawing, which is HTML, with its caption, a text, and a table of what it shows behind it."""
    yield f'<figure><div class="scrolls">{drawing}</div><figcaption>{escape(caption)}</figcaption></figure>'
    listed = list(values)
    if listed:
        yield from details("The values of this drawing", listed)


def details(summary: str, lines: Iterable[str]) -> Iterable[str]:
    """Yield ``lines``, which are HTML, behind a summary, a text, that opens them."""
    yield f"<details><summary>{escape(summary)}</summary>"
    yield from lines
    yield "</details>"


def are_numbers(texts: Sequence[str]) -> bool:
    """Return whether texts are numbers, at least one of them, and nothing else but gaps."""
    said = [text for text in texts if text not in ("", "-")]
    return bool(said) and all(_NUMBER.fullmatch(text) for text in said)
