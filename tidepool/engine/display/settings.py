"""Settings of a display, and what of an operation it may show: secrets are hidden."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol

from tidepool.engine.display import markup
from tidepool.engine.events import (
    Diagnostic,
    Event,
    Prelude,
    ResourceFailed,
    ResourceOutputs,
    ResourcePre,
    Stdout,
    StepMetadata,
)
from tidepool.engine.resource import ResourceState
from tidepool.engine.values import Archive, Asset, Output, Properties, Secret, Value

#: Which verb is shown: it gives the headline.
Kind = Literal["preview", "update", "refresh", "destroy"]

_RUNNING: Final[dict[Kind, str]] = {
    "preview": "Previewing",
    "update": "Updating",
    "refresh": "Refreshing",
    "destroy": "Destroying",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The operation, and what of it to show. The defaults are those of the Pulumi CLI's flags."""

    kind: Kind
    is_preview: bool
    stack: str
    project: str
    color: bool = False
    show_secrets: bool = False
    show_sames: bool = False
    show_reads: bool = False
    show_replacement_steps: bool = False
    show_config: bool = False
    show_urns: bool = False
    show_full_output: bool = False
    suppress_outputs: bool = False
    suppress_progress: bool = False
    debug: bool = False

    @property
    def label(self) -> str:
        """The headline's words: "Updating", "Previewing destroy"."""
        previewed = "update" if self.kind == "preview" else self.kind
        return f"Previewing {previewed}" if self.is_preview else _RUNNING[self.kind]

    @property
    def headline(self) -> str:
        """The first line, marked up."""
        return f"{markup.HEADLINE}{self.label} ({self.stack}):{markup.RESET}"


class Display(Protocol):
    """Something that shows an operation. Given all events in order, from one thread at a time."""

    def event(self, event: Event) -> None:
        """Show ``event``."""
        ...

    def cancelling(self) -> None:
        """Show that the person asked to end: what is under way ends, nothing new begins."""
        ...

    def close(self) -> None:
        """Show what is left to be shown and give the terminal back. Called once, also after a failure."""
        ...


MASK: Final = "[secret]"

# A shorter text is in every other word; masking it would tell of it rather than hide it.
_SHORTEST: Final = 3


class SecretFilter:
    """Replaces known plaintexts by ``[secret]``.

    Not replaced are plaintexts shorter than three characters and the words true and false, as in the
    Pulumi CLI. A plaintext is also found where it was escaped for JSON.
    """

    def __init__(self, plaintexts: Iterable[str] = ()) -> None:
        variants: dict[str, None] = {}
        for text in plaintexts:
            if len(text) < _SHORTEST or text.lower() in ("true", "false"):
                continue
            variants[text] = None
            variants[json.dumps(text, ensure_ascii=False)[1:-1]] = None
            variants[json.dumps(text)[1:-1]] = None
        # Longer ones first: of two secrets that begin alike, none of the longer one may be left over.
        alternatives = sorted(variants, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, alternatives))) if alternatives else None

    def text(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub(MASK, text)

    def value(self, value: Value) -> Value:
        """``value`` without the secrets in its texts; what is marked secret stays as it is."""
        match value:
            case str():
                return self.text(value)
            case dict():
                return {k: self.value(v) for k, v in value.items()}
            case list():
                return [self.value(v) for v in value]
            case Secret():
                return value
            case Output():
                return value if value.secret else replace(value, element=self.value(value.element))
            case Asset() if value.text is not None:
                return replace(value, text=self.text(value.text))
            case Archive() if value.assets is not None:
                return replace(value, assets={k: self.value(v) for k, v in value.assets.items()})
            case _:
                return value

    def event(self, event: Event) -> Event:
        """``event`` without the secrets in its texts and property values."""
        if self._pattern is None:
            return event
        match event:
            case Diagnostic() | Stdout():
                return replace(event, message=self.text(event.message))
            case ResourcePre() | ResourceOutputs() | ResourceFailed():
                return replace(event, metadata=self._step(event.metadata))
            case Prelude():
                return Prelude({k: self.text(v) for k, v in event.config.items()})
            case _:
                return event

    def _step(self, step: StepMetadata) -> StepMetadata:
        return replace(step, old=self._state(step.old), new=self._state(step.new))

    def _state(self, state: ResourceState | None) -> ResourceState | None:
        if state is None:
            return None
        inputs: Properties = self.value(state.inputs)
        outputs: Properties = self.value(state.outputs)
        reasons = tuple(map(self.text, state.init_errors))
        return replace(state, inputs=inputs, outputs=outputs, init_errors=reasons)


#: What stands for every secret: all are alike, so that not even their equality is told.
MASKED: Final = Secret(MASK)

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
