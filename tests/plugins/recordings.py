"""What real plugins answered about the types that the graph uses: the plugins of the tests are judged by it.

``recorded/NAME.json`` has cases, which a person writes: a resource as it is there (``before``, nothing where it is new) and as
the program wants it (``after``, keys that are null are left out). To each stands what the real plugin answered.

    python -m tests.plugins.recordings libvirt qemu+tcp://127.0.0.1:16509/system

asks the plugin on PATH anew, and writes its answers.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from tidepool.engine.project import Project
from tidepool.engine.providers.contract import Existing, Provider, ProviderError
from tidepool.engine.providers.discovery import PluginRequest
from tidepool.engine.providers.loading import PluginLoader

_FOLDER: Final = Path(__file__).with_name("recorded")
#: By its package, the name of the configuration that says where a plugin's infrastructure is.
_WHERE: Final = {"libvirt": "uri", "nomad": "address"}
_SEED: Final = bytes(16)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a plugin says of a case.

    ``wrong``: the check refuses it. ``defaults``: what the check adds to the inputs. ``changes``: there is something to do.
    ``replaces``: the properties for which that is a new resource.
    """

    wrong: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)
    changes: bool = False
    replaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """A resource of a type, as it is there and as it is wanted."""

    type: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    @property
    def wanted(self) -> dict[str, Any]:
        """The inputs of the program."""
        return {key: value for key, value in {**self.before, **self.after}.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Recording:
    """The cases of a package, with the answers of ``plugin``."""

    plugin: str
    cases: tuple[tuple[Case, Answer], ...]


def recorded(package: str) -> Recording:
    """Return the recording of a package."""
    told = json.loads(_file(package).read_text())
    return Recording(told["plugin"], tuple(_read(each) for each in told["cases"]))


def answers(package: str, where: str, cases: Sequence[Case], path: str) -> list[Answer]:
    """Ask the plugin of a package that is first on ``path``; its infrastructure is at ``where``."""

    async def ask() -> list[Answer]:
        with tempfile.TemporaryDirectory() as folder:
            plugins = _loader(Path(folder), path)
            plugin = await plugins.load(PluginRequest(package))
            try:
                urn = f"urn:pulumi:dev::cluster::pulumi:providers:{package}::it"
                await plugin.configure(urn, "1", {_WHERE[package]: where})
                return [await _answer(plugin, case) for case in cases]
            finally:
                await plugin.close()
                await plugins.close()

    return asyncio.run(ask())


def main(package: str, where: str) -> None:
    """Write the answers of the plugin on PATH in place of those that are there."""
    told = recorded(package)
    cases = [case for case, _ in told.cases]
    given = answers(package, where, cases, os.environ["PATH"])
    rows = [
        json.dumps({**asdict(case), "answer": asdict(answer)}, sort_keys=True)
        for case, answer in zip(cases, given, strict=True)
    ]
    listed = ",\n  ".join(rows)
    _file(package).write_text(f'{{\n "plugin": {json.dumps(told.plugin)},\n "cases": [\n  {listed}\n ]\n}}\n')


async def _answer(plugin: Provider, case: Case) -> Answer:
    urn = f"urn:pulumi:dev::cluster::{case.type}::it"
    first = await plugin.check(urn, {}, dict(case.before), _SEED, False) if case.before else None
    before = first.inputs if first else {}
    try:
        checked = await plugin.check(urn, before, case.wanted, _SEED, False)
    except ProviderError:  # of a value that it cannot even read
        return Answer(wrong=True)
    if checked.failures:
        return Answer(wrong=True)
    defaults = {
        key: value
        for key, value in checked.inputs.items()
        if key not in case.wanted and not key.startswith("__")
    }
    if first is None:
        return Answer(defaults=defaults)
    there = Existing("it", before, {**before, "id": "it"})
    found = await plugin.diff(urn, there, checked.inputs, ())
    replaces = {key.partition(".")[0].partition("[")[0] for key in found.replace_keys}
    return Answer(defaults=defaults, changes=found.changes == "some", replaces=tuple(sorted(replaces)))


def _loader(folder: Path, path: str) -> PluginLoader:
    return PluginLoader(
        project=Project("cluster", folder / "Pulumi.yaml", "python", {}),
        env={**os.environ, "PATH": path},
        pulumi_home=folder / "home",
        python=Path(sys.executable),
        log=lambda _: None,
        stack_outputs=lambda _: {},
        resource_state=lambda _: None,
    )


def _read(told: Mapping[str, Any]) -> tuple[Case, Answer]:
    answer = dict(told.get("answer", {}))
    replaces = tuple(answer.pop("replaces", ()))
    return Case(told["type"], told["before"], told["after"]), Answer(**answer, replaces=replaces)


def _file(package: str) -> Path:
    return _FOLDER / f"{package}.json"


if __name__ == "__main__":
    main(*sys.argv[1:])
