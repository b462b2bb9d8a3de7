"""The part of property values that may be seen in a display."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidepool.engine.values import Archive, Asset, Output, Properties, Secret, Value

#: What stands for every secret: all are alike, so that not even their equality is told.
MASKED: Final = Secret("[secret]")

_PLAIN: Final = frozenset({str, int, float, bool, type(None)})


def visible(properties: Properties, show_secrets: bool) -> Properties:
    """``properties`` as they may be drawn: secrets masked (or kept, as secrets), asset texts left out."""
    if all(v.__class__ in _PLAIN for v in properties.values()):
        return properties
    return {k: _value(v, show_secrets) for k, v in properties.items()}


def _value(value: Value, show_secrets: bool) -> Value:
    match value:
        case dict():
            return {k: _value(v, show_secrets) for k, v in value.items()}
        case list():
            return [_value(v, show_secrets) for v in value]
        case Secret():
            return Secret(_value(value.element, show_secrets)) if show_secrets else MASKED
        case Output():
            return _value(Secret(value.element) if value.secret else value.element, show_secrets)
        case Asset() if value.text is not None:
            # Texts are files of any size.
            return replace(value, text="<contents elided>")
        case Archive() if value.assets is not None:
            return replace(value, assets={k: _value(v, show_secrets) for k, v in value.assets.items()})
        case _:
            return value
