"""tidepool:local:Boot, and the files in which boots are kept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from tidepool.cluster.boot import Boot, Device, File, Folder, Mount, Service
from tidepool.cluster.names import CLUSTER_NETWORK
from tidepool.infrastructures.local import resources
from tidepool.infrastructures.local.kernel import BadSpec, MachineSpec
from tidepool.infrastructures.local.kernel.errors import explained
from tidepool.infrastructures.local.kernel.private import remove_private, write_private
from tidepool.infrastructures.local.kernel.spec import is_name
from tidepool.infrastructures.local.resources import BootModel
from tidepool.resources.kind import AS_KNOWN, Home, IdempotentKind, Made, Refusal, Task
from tidepool.resources.reading import Mistake
from tidepool.resources.values import Plain

#: The parts that a machine of this machine's takes, as they are kept.
_KEPT: Final = ("services", "files", "folders", "mounts", "capabilities", "devices", "containers")


class BootKind(IdempotentKind[BootModel]):
    """A file ``<data>/<stack>/boots/<name>.json``, which machines are booted by."""

    resource = resources.Boot

    def mistakes(self, wanted: BootModel) -> Iterable[Mistake]:
        yield from name_mistakes(stack=wanted.stack, boot=wanted.boot)
        yield from _mistakes(_boot(wanted))

    def create(self, wanted: BootModel, task: Task) -> Made:
        kept = asdict(_boot(wanted))
        with explained(f"boot {wanted.boot} of stack {wanted.stack} could not be written"):
            # For root alone: there are keys among the files.
            path = boot_path(self._home, wanted.stack, wanted.boot)
            write_private(path, json.dumps({name: kept[name] for name in _KEPT}))
        return Made(f"{wanted.stack}/{wanted.boot}")

    def look(self, id: str, state: BootModel) -> Mapping[str, Plain] | None:
        try:
            there = load_boot(boot_path(self._home, state.stack, state.boot))
        except (FileNotFoundError, KeyError, TypeError, ValueError):
            return None  # gone, or no longer what this version reads: it is written anew
        # What is otherwise may be a key, and is not worth showing: it is written anew as well.
        return AS_KNOWN if there == _boot(state) else None

    def delete(self, id: str, state: BootModel, task: Task) -> None:
        with explained(f"boot {id} could not be deleted"):
            remove_private(boot_path(self._home, state.stack, state.boot), below=self._home.data)


def boot_path(home: Home, stack: str, boot: str) -> Path:
    """Return the file that a boot is kept in."""
    return home.data / stack / "boots" / f"{boot}.json"


def machine_spec(boot: Boot[str], **rest: Any) -> MachineSpec:
    """Return the machine that boots so, with the ``rest`` of its specification.

    Raises:
        BadSpec: there are mistakes in it.
    """
    return MachineSpec(**{name: getattr(boot, name) for name in _KEPT}, **rest)


def load_boot(path: Path) -> Boot[str]:
    """Return the boot that the resource wrote.

    Raises:
        FileNotFoundError: it is not there.
    """
    kept: Mapping[str, Any] = json.loads(path.read_text("utf-8"))
    services = []
    for each in kept["services"]:
        lists = {
            "argv": tuple(each["argv"]),
            "environment": tuple(map(tuple, each["environment"])),
            "capabilities": tuple(each.get("capabilities", ())),
        }
        services.append(Service(**each | lists))
    return Boot(
        services=tuple(services),
        files=tuple(File(**each) for each in kept["files"]),
        folders=tuple(Folder(**each) for each in kept["folders"]),
        mounts=tuple(Mount(**each) for each in kept["mounts"]),
        capabilities=tuple(kept["capabilities"]),
        devices=tuple(Device(**each) for each in kept["devices"]),
        containers=kept.get("containers", ""),
    )


def stored_boot(home: Home, stack: str, boot: str) -> Boot[str]:
    """Return the boot of that name.

    Raises:
        Refusal: it is not there; says what writes it.
    """
    path = boot_path(home, stack, boot)
    try:
        return load_boot(path)
    except FileNotFoundError:
        raise Refusal(
            f"there is no boot {boot} in stack {stack} ({path} is missing): `tidepool up --refresh` writes it anew"
        ) from None


def _boot(wanted: BootModel) -> Boot[str]:
    parts: dict[str, Any] = {name: getattr(wanted, name) for name in _KEPT}
    return Boot(**parts)


def _mistakes(boot: Boot[str]) -> Iterable[Mistake]:
    machine = {"stack": "stack", "name": "boot", "network": CLUSTER_NETWORK, "address": "10.0.0.1"}
    try:
        machine_spec(boot, **machine, mac="02:00:00:00:00:01", image="/", cpus=1, memory_mib=64)
    except BadSpec as error:
        return [Mistake("", said) for _, said in error.mistakes]
    return ()


def name_mistakes(**names: str) -> Iterable[Mistake]:
    """Yield the inputs that are no names of this machine's folders."""
    for key, name in names.items():
        if not is_name(name):
            yield Mistake(
                key,
                f"it is {name!r}; allowed are lower-case letters, digits and '-' within, at most 63 of them",
            )
