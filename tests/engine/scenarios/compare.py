"""How two observations of one step differ, as a person wants to read it."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from typing import Any


def without(seen: dict[str, Any], parts: Iterable[str]) -> dict[str, Any]:
    """``seen`` without ``parts``, each a key or ``KEY.KEY WITHIN``."""
    kept = dict(seen)
    for part in parts:
        key, _, inner = part.partition(".")
        if inner and isinstance(kept.get(key), dict):
            kept[key] = {k: v for k, v in kept[key].items() if k != inner}
        elif not inner:
            kept.pop(key, None)
    return kept


def differences(expected: dict[str, Any], got: dict[str, Any]) -> list[str]:
    """Lines of a report, empty where both are the same: each part that differs, as a diff of its JSON."""
    report: list[str] = []
    for key in [*expected, *(k for k in got if k not in expected)]:
        want, have = _lines(expected.get(key)), _lines(got.get(key))
        if want != have:
            report.append(f"  {key}:  (- the CLI, + the engine)")
            diff = list(difflib.unified_diff(want, have, lineterm="", n=3))[2:]
            report += [f"    {line}" for line in diff]
    return report


def _lines(value: Any) -> list[str]:
    return json.dumps(value, indent=1, sort_keys=True).splitlines()
