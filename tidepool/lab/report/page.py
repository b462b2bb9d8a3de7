"""A report as one page of HTML, whole in itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from itertools import count
from urllib.parse import quote

from tidepool.html import details, document, figure, table
from tidepool.lab.report.elements import Command, Element, Figure, Folded, Links, Report, Table, Text


def page(report: Report) -> str:
    """Return the page. What it links to lies beside it."""
    return document(report.title, _Lines().of(report))


class _Lines:
    """Counts drawings, each of which has a name of its own in the page."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def of(self, report: Report) -> Iterator[str]:
        yield from self._elements(report.first)
        for section in report.sections:
            lines = [*self._elements(section.elements)]
            if lines:
                yield f"<section><h2>{escape(section.title)}</h2>"
                yield from lines
                yield "</section>"

    def _elements(self, elements: Iterable[Element]) -> Iterator[str]:
        for each in elements:
            yield from self._element(each)

    def _element(self, element: Element) -> Iterable[str]:
        match element:
            case Text(text, is_warning):
                yield (
                    f'<p class="warning" role="alert">{escape(text)}</p>'
                    if is_warning
                    else f"<p>{escape(text)}</p>"
                )
            case Command(text):
                yield f"<pre><code>{escape(text)}</code></pre>"
            case Links(files):
                items = (
                    f'<li><a href="{escape(quote(path))}">{escape(path)}</a>: {escape(text)}</li>'
                    for path, text in files
                )
                yield f"<ul>{''.join(items)}</ul>"
            case Table(title, columns, rows):
                yield from table(escape(title), columns, rows, level=3)
            case Figure(drawing, caption, values):
                yield from figure(
                    drawing.in_page(f"drawing-{next(self._numbers)}"),
                    caption,
                    table("", values.columns, values.rows),
                )
            case Folded(summary, elements):
                yield from details(summary, self._elements(elements))
