"""What a machine does when it boots, as inputs say it, as the data folder keeps it, and as `tidepool.infrastructures.local.kernel` takes it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, TypeVar

from tidepool.infrastructures.local.kernel import BadSpec, Device, File, Folder, MachineSpec, Mount, Service
from tidepool.infrastructures.local.kernel.private import make_private
from tidepool.resources.reading import Reader

_Part = TypeVar("_Part", File, Folder, Mount, Service, Device)

#: By the annotation of a field of `tidepool.infrastructures.local.kernel`: how its value is read.
_READERS: Final[Mapping[str, Callable[[Reader, str, Any], Any]]] = {
    "str": lambda reader, key, default: reader.text(key, default),
    "bool": lambda reader, key, default: reader.flag(key, bool(default)),
    "int": lambda reader, key, default: reader.integer(key, default),
    "float": lambda reader, key, default: reader.number(key, default, least=0),
    "tuple[str, ...]": lambda reader, key, _: reader.texts(key),
    # A map in Pulumi, whose order says nothing.
    "tuple[tuple[str, str], ...]": lambda reader, key, _: tuple(
        sorted(reader.texts_by_name(key, {}).items())
    ),
}


@dataclass(frozen=True, slots=True)
class BootParts:
    """The parts of a `MachineSpec` that a `Boot` holds."""

    services: tuple[Service, ...] = ()
    files: tuple[File, ...] = ()
    folders: tuple[Folder, ...] = ()
    mounts: tuple[Mount, ...] = ()
    capabilities: tuple[str, ...] = ()
    devices: tuple[Device, ...] = ()
    containers: str = ""

    def mistakes(self) -> BadSpec | None:
        """What `tidepool.infrastructures.local.kernel` would say of a machine that boots so."""
        try:
            self.machine(
                stack="stack",
                name="boot",
                network="net",
                address="10.0.0.1",
                mac="02:00:00:00:00:01",
                image="/",
                cpus=1,
                memory_mib=64,
            )
        except BadSpec as error:
            return error
        return None

    def machine(self, **rest: Any) -> MachineSpec:
        """The machine with these parts, and the ``rest`` of its specification.

        Raises:
            BadSpec: there are mistakes in it.
        """
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        return MachineSpec(**parts, **rest)

    def save(self, path: Path) -> None:
        """Write them for root alone: there are keys among the files."""
        make_private(path.parent)
        beside = path.with_suffix(".new")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(self), file)
        beside.replace(path)


def read_parts(reader: Reader) -> BootParts:
    """The parts that inputs say."""
    return BootParts(
        services=tuple(_part(Service, each) for each in reader.maps("services")),
        # Maps come over gRPC in any order.
        files=tuple(_part(File, each, path=path) for path, each in sorted(reader.maps_by_name("files"))),
        folders=tuple(_part(Folder, each) for each in reader.maps("folders")),
        mounts=tuple(_part(Mount, each) for each in reader.maps("mounts")),
        capabilities=reader.texts("capabilities"),
        devices=tuple(_part(Device, each) for each in reader.maps("devices")),
        containers=reader.text("containers", ""),
    )


def load_parts(path: Path) -> BootParts:
    """The parts that `BootParts.save` wrote.

    Raises:
        FileNotFoundError: they are not there.
    """
    told: Mapping[str, Any] = json.loads(path.read_text("utf-8"))
    return BootParts(
        services=tuple(
            Service(
                **each
                | {
                    "argv": tuple(each["argv"]),
                    "environment": tuple((name, value) for name, value in each["environment"]),
                }
            )
            for each in told["services"]
        ),
        files=tuple(File(**each) for each in told["files"]),
        folders=tuple(Folder(**each) for each in told["folders"]),
        mounts=tuple(Mount(**each) for each in told["mounts"]),
        capabilities=tuple(told["capabilities"]),
        devices=tuple(Device(**each) for each in told["devices"]),
        containers=told.get("containers", ""),
    )


def _part(part: type[_Part], reader: Reader, **given: str) -> _Part:
    values: dict[str, Any] = dict(given)
    for field in fields(part):
        if field.name not in given:
            default = field.default if isinstance(field.default, str | int | float) else None
            values[field.name] = _READERS[str(field.type)](reader, _camel(field.name), default)
    reader.refuse_others()
    return part(**values)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
