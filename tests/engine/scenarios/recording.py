"""The file that holds what was seen: JSON that a person can read and a version control system can compare."""

from __future__ import annotations

import json
from typing import Any, Final

_WIDTH: Final = 110
_AS_BEFORE: Final = "as before"
#: Parts that a step often leaves as they were.
_LASTING: Final = ("cloud", "state")


def folded(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """``steps`` with each lasting part that is as in the step before replaced by a mark."""
    result: list[dict[str, Any]] = []
    last: dict[str, str] = {}
    for step in steps:
        # As text: to Python, True is 1.
        now: dict[str, str] = {k: json.dumps(step[k], sort_keys=True) for k in _LASTING if k in step}
        result.append({k: _AS_BEFORE if k in now and last.get(k) == now[k] else v for k, v in step.items()})
        last |= now
    return result


def unfolded(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The inverse of :func:`folded`."""
    result: list[dict[str, Any]] = []
    last: dict[str, Any] = {}
    for step in steps:
        result.append({k: last[k] if k in _LASTING and v == _AS_BEFORE else v for k, v in step.items()})
        last |= {k: result[-1][k] for k in _LASTING if k in step}
    return result


def dump(value: Any, indent: str = "") -> str:
    """``value`` as JSON, whatever fits on a line on one line."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + len(indent) <= _WIDTH or not isinstance(value, (dict, list)) or not value:
        return flat
    inner = indent + " "
    if isinstance(value, dict):
        body = [f"{inner}{json.dumps(k, ensure_ascii=False)}: {dump(v, inner)}" for k, v in value.items()]
        return "{\n" + ",\n".join(body) + f"\n{indent}}}"
    return "[\n" + ",\n".join(inner + dump(v, inner) for v in value) + f"\n{indent}]"
