"""The text of user data for cloud-init, which reads it as YAML, and our own programs as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

_HEAD: Final = "#cloud-config\n"


def cloud_config(said: Mapping[str, Any], indent: int | None = None) -> str:
    """``said`` such that both read the same.

    What JSON escapes as two halves of a letter, YAML reads as two letters that there are not: such letters stay as they are. All
    others beyond ASCII are escaped, for some of them are ends of lines to YAML.
    """
    text = json.dumps(said, indent=indent, ensure_ascii=False)
    return _HEAD + re.sub("[\x7f-\uffff]", lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"
