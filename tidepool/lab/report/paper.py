"""A report on paper: PDF that screen readers can read (PDF/UA), set by typst, which has what is said as JSON and how it looks from ``paper.typ``."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

from tidepool.html import are_numbers
from tidepool.lab.errors import LabError
from tidepool.lab.report.elements import Command, Element, Figure, Folded, Links, Report, Table, Text

#: Letters of a column beyond which it is broken into lines.
_LONG: Final = 44
_LONG_WORD: Final = re.compile(rf"\S{{{_LONG},}}")
_TEMPLATE: Final = Path(__file__).with_name("paper.typ")


def write_paper(report: Report, path: Path) -> None:
    """Write the report as PDF.

    Raises:
        LabError: typst is not installed, or the file cannot be written.
    """
    try:
        import typst
    except ImportError as error:
        raise LabError(
            "a report on paper needs the package typst: `pip install typst`, then once more"
        ) from error
    import matplotlib

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(_TEMPLATE, folder)
        (folder / "report.json").write_text(json.dumps(_Content(folder).of(report)), encoding="utf-8")
        # The fonts that drawings were measured with, on every machine.
        fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
        made: bytes = typst.compile(
            folder / _TEMPLATE.name,
            root=folder,
            font_paths=[fonts],
            ignore_system_fonts=True,
            timestamp=0,
            # Checked as it is written: texts for drawings, heads of tables, a language, a title.
            pdf_standards="ua-1",
        )
    try:
        path.write_bytes(made)
    except OSError as error:
        raise LabError(f"{path} cannot be written: {error.strerror or error}") from error


class _Content:
    """A report as plain values, its drawings as files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count(1)

    def of(self, report: Report) -> Mapping[str, Any]:
        sections = ((section.title, self._elements(section.elements)) for section in report.sections)
        return {
            "title": report.title,
            "first": self._elements(report.first),
            "sections": [{"title": title, "elements": elements} for title, elements in sections if elements],
        }

    def _elements(self, elements: Iterable[Element]) -> list[Mapping[str, Any]]:
        return [self._element(each) for each in elements if not (isinstance(each, Table) and not each.rows)]

    def _element(self, element: Element) -> Mapping[str, Any]:
        match element:
            case Text(text, is_warning):
                return {"kind": "warning" if is_warning else "text", "text": text}
            case Command(text):
                return {"kind": "command", "text": text}
            case Links(files):
                return {"kind": "links", "files": [*files]}
            case Table(title, columns, rows):
                right = [are_numbers(cells) for cells in zip(*rows, strict=True)]
                return {
                    "kind": "table",
                    "title": title,
                    "columns": [*columns],
                    "rows": [[*map(_breakable, row)] for row in rows],
                    "right": right,
                    "weights": [_weight(cells) for cells in zip(columns, *rows, strict=True)],
                }
            case Figure(drawing, caption, _):
                file = f"drawing-{next(self._numbers)}.svg"
                (self._folder / file).write_text(drawing.svg, encoding="utf-8")
                return {"kind": "figure", "file": file, "alt": drawing.title, "caption": caption}
            case Folded(summary, elements):
                return {"kind": "group", "title": summary, "elements": self._elements(elements)}


def _weight(cells: Sequence[str]) -> int:
    """The part of a page's width that a column of texts has beside others: by its longest, as far as that is none of a paragraph."""
    return min(_LONG, max(map(len, cells)) + 2)


def _breakable(text: str) -> str:
    """The text with places at which a long word may be broken: settings are written without a space."""
    return _LONG_WORD.sub(lambda word: re.sub(r"([,;/=:])", "\\1\u200b", word[0]), text)
