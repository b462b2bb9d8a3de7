"""Where in the program a resource stands, as the state keeps it: relative to the project's folder."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote, urlsplit


def parse(position: Any, root: str) -> str:
    """``project:///FILE#LINE,COLUMN`` of a ``source_pb2.SourcePosition``; empty where it says nothing usable."""
    if position is None or not position.uri or position.line < 0 or position.column < 0:
        return ""
    file = _relative(position.uri, root)
    if not file:
        return ""
    column = f",{position.column}" if position.column else ""
    return f"project:///{file}#{position.line}{column}"


@lru_cache(maxsize=4096)
def _relative(uri: str, root: str) -> str:
    url = urlsplit(uri)
    path = unquote(url.path)
    if url.scheme != "file" or not os.path.isabs(path):
        return ""
    return quote(os.path.relpath(path, root))
