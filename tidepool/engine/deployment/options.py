"""The values that an operation is begun with: what a person chose, and what it is about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from tidepool.engine.resource import Snapshot
from tidepool.engine.values import Properties

Kind = Literal["update", "refresh", "destroy"]


@dataclass(frozen=True)
class Targets:
    """URNs that an operation is limited to, or leaves out; ``*`` and ``**`` are wildcards.

    ``*`` stands for any text without ``:``, ``**`` for any text. No URNs at all is no limit.
    """

    urns: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.urns)

    def __contains__(self, urn: str) -> bool:
        return urn in self.literals or any(p.fullmatch(urn) for p in self._patterns)

    @cached_property
    def literals(self) -> frozenset[str]:
        """The URNs without wildcards."""
        return frozenset(u for u in self.urns if "*" not in u)

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], ...]:
        return tuple(_pattern(u) for u in self.urns if "*" in u)


def _pattern(urn: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*|\*)", urn)
    wild = {"*": "[^:]*", "**": ".*"}
    return re.compile("".join(wild.get(p, re.escape(p)) for p in parts))


@dataclass(frozen=True, slots=True)
class Options:
    """Choices of how an operation is to be done.

    ``parallel`` counts steps that may run at the same time. ``run_program`` lets a refresh or destroy run
    the program for up-to-date provider configuration.
    """

    kind: Kind
    preview: bool
    parallel: int
    continue_on_error: bool = False
    refresh: bool = False
    run_program: bool = False
    targets: Targets = Targets()
    target_dependents: bool = False
    excludes: Targets = Targets()
    exclude_dependents: bool = False
    replace: Targets = Targets()

    @property
    def refreshes_in_program(self) -> bool:
        """True where each resource is refreshed when the program registers it."""
        return self.refresh and self.run_program


@dataclass(frozen=True, slots=True)
class Request:
    """All that an operation needs to know.

    ``config`` holds full keys (``ns:name``) with typed values, secrets marked, for providers;
    ``program_config`` the same as plain texts, for the program. ``root`` is the folder of the project,
    ``working_folder`` that of the program.
    """

    stack: str
    project: str
    organization: str
    root: Path
    working_folder: Path
    options: Options
    base: Snapshot
    config: Properties = field(default_factory=dict)
    program_config: Mapping[str, str] = field(default_factory=dict)
    secret_config_keys: tuple[str, ...] = ()
    shown_config: Mapping[str, str] = field(default_factory=dict)

    def described(self) -> dict[str, Any]:
        """The fields of the messages that tell programs, and providers that run one, of the operation."""
        return {
            "project": self.project,
            "stack": self.stack,
            "organization": self.organization,
            "config": self.program_config,
            "configSecretKeys": self.secret_config_keys,
            "dryRun": self.options.preview,
            "parallel": self.options.parallel,
        }
