"""Drawings that stand within a page: SVG whose texts are texts, in the page's own colours, or as a file for paper."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

from tidepool.charts import FAINT, INK, SETTINGS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_IDS: Final = re.compile(r'(\bid="|href="#|url\(#)')
_METADATA: Final = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
_HEAD: Final = re.compile(r"<svg\b[^>]*>")
_SIZE: Final = re.compile(r'\b(viewBox|width|height)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawing for paper, which is white.

    Attributes:
        title: what it shows, for who cannot see it.
        svg: a whole file of SVG, in the fonts that matplotlib comes with.
    """

    title: str
    svg: str

    def in_page(self, name: str) -> str:
        """Return it as an element of HTML. ``name`` is no other drawing's of that page; colours are those of `tidepool.html`."""
        head = _HEAD.search(self.svg)
        assert head is not None
        size = " ".join(f'{key}="{value}"' for key, value in _SIZE.findall(head[0]))
        body = _IDS.sub(rf"\g<1>{name}-", self.svg[head.end() :])
        body = body.replace("xlink:href", "href").replace(INK, "currentColor").replace(FAINT, "var(--faint)")
        return (
            f'<svg {size} role="img" aria-labelledby="{name}-title" font-family="DejaVu Sans, sans-serif">'
            f'<title id="{name}-title">{escape(self.title)}</title>{body.rstrip()}'
        )


def embedded(draw: Callable[[], Figure], title: str) -> Drawing:
    """Draw, and return it with nothing behind it; the same drawing gives the same text."""
    import matplotlib

    stream = io.StringIO()
    with matplotlib.rc_context({**SETTINGS, "svg.fonttype": "none"}):
        draw().savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return Drawing(title, _METADATA.sub("", stream.getvalue()))
