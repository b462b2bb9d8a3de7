"""A stack's configuration together with its project's: what the project adds to it, demands of it, and gives the program.

Source: Pulumi's ``pkg/workspace/config.go``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tidepool.engine import json_text
from tidepool.engine.config import (
    MASK,
    ConfigError,
    Decrypt,
    Value,
    Values,
    decrypted,
    get,
    is_object,
    is_secure,
    parse_key,
    put,
    text_of,
    to_document,
)
from tidepool.engine.project import Project


def with_project_values(values: Values, project: Project) -> Values:
    """``values`` with the project's defaults and values for the keys that the stack does not set."""
    for name in sorted(project.config):
        declared = project.config[name]
        key = parse_key(name, project.name)
        if get(values, key, path=True)[1]:
            continue
        value = declared.default if declared.default is not None else declared.value
        if value is not None:
            values = put(values, key, _declared_value(value), path=True)
    return values


def validate(values: Values, project: Project, stack: str, decrypt: Decrypt) -> None:
    """Check ``values``, with the project's own already in them, against the project's declarations.

    Raises:
        ConfigError: when required keys are missing, or a value is not of its declared type.
    """
    missing = []
    typed = []
    for name in sorted(project.config):
        declared = project.config[name]
        key = parse_key(name, project.name)
        value, found = get(values, key, path=True)
        if not found:
            if key.namespace == project.name:
                missing.append(name)
        elif declared.type is not None:
            typed.append((name, declared, value))
    if missing:
        noun = "value" if len(missing) == 1 else "values"
        raise ConfigError(
            f"validating stack config: Stack '{stack}' is missing configuration {noun} {_enumerated(missing)}"
        )
    for name, declared, value in typed:
        if declared.secret and not is_secure(value):
            raise ConfigError(
                f"validating stack config: Stack '{stack}' with configuration key '{name}' must be encrypted "
                "as it's secret"
            )
        assert declared.type is not None
        if not declared.type.admits(_judged(value, decrypt)):
            raise ConfigError(
                f"validating stack config: Stack '{stack}' with configuration key '{name}' must be of type "
                f"'{declared.type}'"
            )


@dataclass(frozen=True, slots=True)
class ProgramConfig:
    """The configuration as a program gets it: full keys to texts, and the keys that hold secrets.

    ``masked`` is the same with secrets replaced, for events and logs.
    """

    values: Mapping[str, str]
    secret_keys: tuple[str, ...]
    masked: Mapping[str, str]

    def __repr__(self) -> str:
        return f"ProgramConfig({dict(self.masked)!r})"


def program_config(values: Values, decrypt: Decrypt) -> ProgramConfig:
    """Return the part of ``values`` that a program sees. ``decrypt`` is called only where there are secrets."""
    ordered = {str(k): values[k] for k in sorted(values)}
    secret = tuple(k for k, value in ordered.items() if is_secure(value))
    plain = {k: text_of(value, decrypt) for k, value in ordered.items()}
    return ProgramConfig(
        values=plain,
        secret_keys=secret,
        masked=plain | {k: text_of(ordered[k], lambda _: MASK) for k in secret},
    )


def recorded(values: Values) -> dict[str, Any]:
    """Return ``values`` as the history of updates keeps them: by the texts of their keys, in order, secrets encrypted."""
    return {str(k): to_document(values[k]) for k in sorted(values)}


def _declared_value(value: Any) -> Value:
    if isinstance(value, bool | int):
        return json_text.dumps_sorted(value)
    return value


def _judged(value: Value, decrypt: Decrypt) -> Any:
    """``value`` as its type is judged: plain values as text, objects as what they are."""
    return decrypted(value, decrypt) if is_object(value) else text_of(value, decrypt)


def _enumerated(names: Iterable[str]) -> str:
    *first, last = (f"'{n}'" for n in names)
    return f"{', '.join(first)} and {last}" if first else last
