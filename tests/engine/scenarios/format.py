"""A scenario: what is done, step by step, to one program. Read from ``scenario.yaml`` beside the program.

```yaml
about: one sentence on what the scenario shows
secrets: [hunter2]            # text that may appear nowhere in clear
by_both: true                 # the CLI plays each time, too: each finds what the other left
differs: the CLI does ...     # both are known to differ, and why
steps:
- {do: up}                    # any command line of `pulumi`
- {do: up, program: 2}        # the program reads STEP from its environment
- {do: refresh, world: [{drift: a-1, set: {size: 9}}], exit: fail}
```
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal

import yaml

Who = Literal["cli", "engine"]
#: The verbs that carry out an operation: they get the flags of unattended use and an event log.
OPERATIONS: Final = ("preview", "up", "refresh", "destroy")


@dataclass(frozen=True, slots=True)
class Step:
    """One command line and what happens around it.

    ``do``: the command line after ``pulumi``, split as a shell would; ``{state}`` in it is a scratch file.
    ``program``: STEP in the program's environment; None keeps the last one, the first is 1.
    ``env``: further environment, of this step only.
    ``world``: edits of the cloud before the step: ``{drift: ID, set: {...}, unset: [...]}``, ``{gone: ID}``,
    ``{add: ID, type: TYPE, inputs: {...}}``, ``{faults: [{op, name, do, times}]}``.
    ``files``: files of the project folder to write before the step; None removes.
    ``exit``: what the real CLI is expected to do, so that a scenario that misses its point is noticed.
    ``signal_at``: ``{when: OP-NAME, send: kill | interrupt | interrupt twice}``: once that call hangs.
    ``by``: who runs the step in the second play of a scenario of two, the first of which the CLI plays alone.
    ``text``: what the command prints is part of what is compared.
    ``vague``: what the messages say is not compared (they are gRPC's own, or a matter of timing).
    ``unlike``: ``{parts: [...], because: ...}``: where the engine means to do otherwise, and why; a part is a
    key of the observation or ``KEY.KEY WITHIN``.
    ``parallel``: how many steps may run at a time.
    """

    do: str
    why: str = ""
    stack: str = "dev"
    program: int | None = None
    env: dict[str, str] = field(default_factory=dict)
    world: tuple[dict[str, Any], ...] = ()
    files: dict[str, str | None] = field(default_factory=dict)
    exit: Literal["ok", "fail"] = "ok"
    signal_at: dict[str, str] = field(default_factory=dict)
    by: Who | None = None
    text: bool = False
    vague: bool = False
    unlike: dict[str, Any] = field(default_factory=dict)
    parallel: int = 1

    @property
    def verb(self) -> str:
        """The first word of the command line."""
        return self.do.split()[0]

    @property
    def is_operation(self) -> bool:
        """Whether the step runs an operation, which has events."""
        return self.verb in OPERATIONS


@dataclass(frozen=True, slots=True)
class Scenario:
    """All steps on one program. ``folder`` holds the program."""

    name: str
    folder: Path
    about: str
    steps: tuple[Step, ...]
    secrets: tuple[str, ...] = ()
    by_both: bool = False
    differs: str = ""

    @property
    def is_by_both(self) -> bool:
        """Whether the CLI plays each time, whatever both agreed on before."""
        return self.by_both or self.is_of_two or bool(self.differs)

    @property
    def is_of_two(self) -> bool:
        """Whether it says itself who runs a step."""
        return any(step.by for step in self.steps)

    @property
    def project(self) -> str:
        """The project's name, as its programs and URNs have it."""
        return str(yaml.safe_load((self.folder / "Pulumi.yaml").read_text())["name"])


def load(folder: Path) -> Scenario:
    """The scenario in ``folder``. Raises ValueError where it has a key that means nothing."""
    document = yaml.safe_load((folder / "scenario.yaml").read_text())
    unknown = document.keys() - {"about", "secrets", "by_both", "differs", "steps"}
    if unknown:
        raise ValueError(f"{folder.name}/scenario.yaml: unknown keys {sorted(unknown)}")
    return Scenario(
        name=folder.name,
        folder=folder,
        about=document["about"],
        steps=tuple(_step(folder.name, n, raw) for n, raw in enumerate(document["steps"], 1)),
        secrets=tuple(document.get("secrets", ())),
        by_both=document.get("by_both", False),
        differs=document.get("differs", ""),
    )


def load_all(programs: Path) -> list[Scenario]:
    """Every scenario below the folder ``programs``, by name."""
    return [load(path.parent) for path in sorted(programs.glob("*/scenario.yaml"))]


def _step(scenario: str, number: int, raw: dict[str, Any]) -> Step:
    known = {f.name for f in fields(Step)}
    if unknown := raw.keys() - known:
        raise ValueError(f"{scenario}, step {number}: unknown keys {sorted(unknown)}; known: {sorted(known)}")
    return Step(**{**raw, "world": tuple(raw.get("world", ()))})
