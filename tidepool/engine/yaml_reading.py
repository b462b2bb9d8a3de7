"""YAML as Pulumi reads it.

PyYAML follows YAML 1.1, where ``on``, ``yes`` and ``1:30`` are no strings; Pulumi's reader (Go's
yaml.v3) takes them as strings. A file must mean the same to both, so the scalars are resolved by
yaml.v3's rules here.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import yaml


class YamlError(ValueError):
    """The text is not YAML. The message says where."""


def load(text: str) -> Any:
    """The document in ``text``: None, bool, int, float, str, list or dict with str keys.

    Raises:
        YamlError: when it is not YAML, or a mapping has keys that are no scalars.
    """
    # PyYAML costs 15 ms to import; `version` and the like do without.
    import yaml

    try:
        return yaml.load(text, Loader=_loader())  # noqa: S506  (a SafeLoader with fewer types)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise YamlError(f"invalid YAML file: yaml: {where}{error.problem}") from error
    except yaml.YAMLError as error:
        raise YamlError(f"invalid YAML file: yaml: {error}") from error


def timestamp_text(moment: datetime) -> str:
    """``moment`` as Pulumi keeps a YAML timestamp that is used as a value."""
    offset = moment.utcoffset() or timedelta(0)
    fraction = f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else ""
    sign = "-" if offset < timedelta(0) else "+"
    minutes = abs(offset) // timedelta(minutes=1)
    zone = "UTC" if not offset else f"{sign}{minutes // 60:02d}{minutes % 60:02d}"
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction} {sign}{minutes // 60:02d}{minutes % 60:02d} {zone}"


_NULL: Final = re.compile(r"^(?:~|null|Null|NULL|)$")
_BOOL: Final = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")
_INT: Final = re.compile(r"^[-+]?(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO]?[0-7_]+|[1-9][0-9_]*|0)$")
_FLOAT: Final = re.compile(
    r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
_TIMESTAMP: Final = re.compile(
    r"^(\d{4})-(\d\d?)-(\d\d?)"
    r"(?:(?:[Tt]|[ ]+)(\d\d?):(\d\d?):(\d\d?)(?:\.(\d{1,9}))?(?:[ ]*(Z|[-+]\d\d:?\d\d|[-+]\d\d))?)?$"
)


def is_string(text: str) -> bool:
    """Return whether the plain scalar ``text`` is a string to Pulumi's reader."""
    return not any(p.match(text) for p in (_NULL, _BOOL, _INT, _FLOAT, _TIMESTAMP)) and text != "<<"


def _loader() -> type[yaml.SafeLoader]:
    import yaml

    # The C parser is ten times faster; PyYAML without it is still right.
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader: Any = type("PulumiLoader", (base,), {"yaml_implicit_resolvers": {}})
    # By what each can begin with: most scalars are names, and no pattern is tried on them.
    for tag, pattern, firsts in (
        ("null", _NULL, ["~", "n", "N", ""]),
        ("bool", _BOOL, list("tTfF")),
        ("int", _INT, list("-+0123456789")),
        ("float", _FLOAT, list("-+.0123456789")),
        ("timestamp", _TIMESTAMP, list("0123456789")),
        ("merge", re.compile(r"^<<$"), ["<"]),
    ):
        loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", pattern, firsts)
    loader.add_constructor("tag:yaml.org,2002:int", _int)
    loader.add_constructor("tag:yaml.org,2002:timestamp", _timestamp)
    loader.add_constructor("tag:yaml.org,2002:map", _mapping)
    return loader  # type: ignore[no-any-return]


def _int(loader: Any, node: Any) -> int:
    text = loader.construct_scalar(node).replace("_", "").lower()
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-")
    if digits.startswith(("0x", "0b", "0o")):
        return sign * int(digits, 0)
    if len(digits) > 1 and digits.startswith("0"):
        return sign * int(digits, 8)
    return sign * int(digits)


def _timestamp(loader: Any, node: Any) -> Any:
    text = loader.construct_scalar(node)
    match = _TIMESTAMP.match(text)
    assert match is not None  # the resolver matched the same pattern
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    tz = UTC
    if zone and zone != "Z":
        digits = zone[1:].replace(":", "").ljust(4, "0")
        delta = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
        tz = timezone(-delta if zone[0] == "-" else delta)
    try:
        return datetime(
            int(year),
            int(month),
            int(day),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            int((fraction or "0").ljust(6, "0")[:6]),
            tz,
        )
    except ValueError:
        # 2020-13-45 looks like a date and is none: a string, as yaml.v3 takes it.
        return text


def _mapping(loader: Any, node: Any) -> dict[str, Any]:
    loader.flatten_mapping(node)
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        # The text of the key as written: `on:` and `1:` are the keys "on" and "1".
        key = key_node.value
        if not isinstance(key, str):
            raise YamlError(f"line {key_node.start_mark.line + 1}: expected only string keys")
        if key in result:
            raise YamlError(
                f"invalid YAML file: yaml: line {key_node.start_mark.line + 1}: mapping key {key!r} already defined"
            )
        result[key] = loader.construct_object(value_node, deep=True)
    return result
