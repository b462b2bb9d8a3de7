"""A hook of mkdocs: links to files of the repository that are no pages become their paths. A file that is not there fails."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"\[([^\]]+)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
_DOCS = Path(__file__).parent
# Under this name a warning counts for `strict`.
_LOG = logging.getLogger("mkdocs.plugins.links")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return a page's text with its links out of docs/ as text."""
    folder = (_DOCS / page.file.src_path).parent

    def rewritten(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        if target.is_relative_to(_DOCS):
            return link[0]
        if not target.exists():
            _LOG.warning("%s links to %s, which is not there", page.file.src_path, link[2])
        return f"{link[1]} (`{target.relative_to(_DOCS.parent)}`)"

    return _LINK.sub(rewritten, markdown)
