"""Elements that a report is made of, whatever it is written as. All texts are plain: each form escapes them as it must."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidepool.charts.embedded import Drawing


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph. One that is a warning stands out."""

    text: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """Text that a person may copy, as it stands: a command, a file."""

    text: str


@dataclass(frozen=True, slots=True)
class Links:
    """Files beside the report: by their paths from there, and what they hold."""

    files: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Table:
    """Texts in rows, the first of each naming it; without rows it is not shown."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing, what it shows in a sentence, and its values for who cannot see it."""

    drawing: Drawing
    caption: str
    values: Table


@dataclass(frozen=True, slots=True)
class Folded:
    """Elements that a page opens when it is asked to; on paper they are open."""

    summary: str
    elements: Sequence[Text | Table | Figure]


Element = Text | Command | Links | Table | Figure | Folded


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report with its heading; without elements it is not shown."""

    title: str
    elements: Sequence[Element]


@dataclass(frozen=True, slots=True)
class Report:
    """All of it.

    Attributes:
        title: says that results are incomplete where they are.
        first: what stands above all sections.
        sections: in their order.
    """

    title: str
    first: Sequence[Element]
    sections: Sequence[Section] = field(default_factory=tuple)
