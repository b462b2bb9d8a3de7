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
    return _text(position.uri, position.line, position.column, root)


# One text a place in the program, however many resources stand there.
@lru_cache(maxsize=4096)
def _text(uri: str, line: int, column: int, root: str) -> str:
    url = urlsplit(uri)
    path = unquote(url.path)
    if url.scheme != "file" or not os.path.isabs(path):
        return ""
    file = quote(os.path.relpath(path, root))
    return f"project:///{file}#{line},{column}" if column else f"project:///{file}#{line}"
