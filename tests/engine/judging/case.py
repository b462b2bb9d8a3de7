"""What is done with one program of the checkout. Read from ``integration.yaml`` and ``conformance.yaml``.

```yaml
- program: dynamic/python           # its folder below tests/integration
  about: a dynamic provider; its code changes
  plugins: {testprovider: ../testprovider-py}
  random: ["[0-9a-f]{30}"]
  steps:
  - {do: up, outputs: {answer: 42}}
  - {over: dynamic/python/step1, do: up}
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal

import yaml

#: Folders of the checkout with programs, and the list of what is done with those of each.
INTEGRATION: Final = "tests/integration"
SUITES: Final = {
    INTEGRATION: "integration.yaml",
    "sdk/python/cmd/pulumi-language-python/testdata/setuppy/published/projects": "conformance.yaml",
}
OPERATIONS: Final = ("preview", "up", "refresh", "destroy")
_FULL: Final = ("preview", "up", "up --expect-no-changes", "refresh", "destroy")


@dataclass(frozen=True, slots=True)
class Step:
    """One command line, and what Pulumi's own test expects of it.

    ``do``: the command line after ``pulumi``.
    ``over``: a folder of the checkout that is laid over the program first.
    ``outputs``: stack outputs that there must be; ``says`` and ``silent``: texts that must or must not be told.
    ``resources``: how many there are afterwards.
    ``leaves``: files that there must be in SENTINEL_DIR afterwards.
    ``previewed``: the operation shows its preview first.
    ``interrupt``: a text; once it was told, or a file of that name is in SENTINEL_DIR, the command is interrupted.
    """

    do: str
    over: str = ""
    exit: Literal["ok", "fail", "any"] = "ok"
    outputs: Mapping[str, Any] = field(default_factory=dict)
    says: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    resources: int | None = None
    interrupt: str = ""
    previewed: bool = False
    leaves: tuple[str, ...] = ()

    @property
    def is_operation(self) -> bool:
        """Whether the step runs an operation, which has events."""
        return self.do.split()[0] in OPERATIONS


@dataclass(frozen=True, slots=True)
class Case:
    """One program. Paths are relative to the folder ``suite`` of the checkout.

    ``variant`` tells several cases of one program apart; ``cut`` has, by file, from which text on it is left out.
    ``plugins``: folders of the project's plugins by package: Python source, or Go source that is built first.
    ``in_environment``: it is run in the environment ``venv`` beside it, which is the judge's own.
    ``packages``: Python packages that are needed besides the judge's own; they are installed first.
    ``sdks``: plugins whose SDKs the program, or a plugin further down the list, imports: the CLI generates them.
    ``config``: command lines after ``pulumi config`` that are run before the steps.
    ``random``: regular expressions of what differs from run to run.
    ``env``: further environment variables.
    ``refused``: the engine refuses the program with this text in its message.
    ``unlike``: ``{parts: [...], because: ...}``: where the engine does otherwise than the CLI, and why.
    ``shuffled``: regular expressions whose first group is a number that steps draw in any order.
    ``vague``: parts of what can be seen that are a matter of chance.
    ``unjudged``: why it is not run at all.
    ``note``: what a reader of the table should know.
    """

    program: str
    suite: str = INTEGRATION
    variant: str = ""
    about: str = ""
    steps: tuple[Step, ...] = ()
    plugins: Mapping[str, str] = field(default_factory=dict)
    in_environment: bool = False
    packages: tuple[str, ...] = ()
    sdks: tuple[str, ...] = ()
    config: tuple[str, ...] = ()
    random: tuple[str, ...] = ()
    shuffled: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    refused: str = ""
    unlike: Mapping[str, Any] = field(default_factory=dict)
    vague: tuple[str, ...] = ()
    cut: Mapping[str, str] = field(default_factory=dict)
    unjudged: str = ""
    note: str = ""

    @property
    def name(self) -> str:
        """What the case is called."""
        return f"{self.program}, {self.variant}" if self.variant else self.program


def load_all(path: Path, suite: str = INTEGRATION) -> list[Case]:
    """All cases of the file. Raises ValueError where it has a key that means nothing, or a program twice."""
    cases = [_case({"suite": suite, **raw}) for raw in yaml.safe_load(path.read_text())]
    names = [case.name for case in cases]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{path.name}: more than once: {twice}")
    return cases


def _case(raw: dict[str, Any]) -> Case:
    _known(Case, raw, raw.get("program", "?"))
    usual = ("up",) if "refused" in raw else _FULL
    steps = raw.get("steps", [{"do": do} for do in usual])
    return Case(
        **{
            **_tuples(raw, "config", "packages", "random", "sdks", "shuffled", "vague"),
            "steps": tuple(_step(raw["program"], step) for step in steps),
        }
    )


def _step(program: str, raw: dict[str, Any]) -> Step:
    _known(Step, raw, f"{program}: {raw.get('do')}")
    return Step(**_tuples(raw, "says", "silent", "leaves"))


def _known(kind: type, raw: Mapping[str, Any], where: str) -> None:
    known = {f.name for f in fields(kind)}
    if unknown := raw.keys() - known:
        raise ValueError(f"{where}: unknown keys {sorted(unknown)}; known: {sorted(known)}")


def _tuples(raw: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {**raw, **{key: tuple(raw[key]) for key in keys if key in raw}}
