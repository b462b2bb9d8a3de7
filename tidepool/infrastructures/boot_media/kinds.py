"""The kind of the resource of boots, which are files here; and what kinds of machines do with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address
from pathlib import Path

from tidepool.cluster.failures import Transient
from tidepool.images.errors import ImageError
from tidepool.images.iso import seed_at
from tidepool.infrastructures.boot_media.media import Kept
from tidepool.infrastructures.boot_media.resources import MetalBoot, MetalBootModel
from tidepool.infrastructures.machines import MachineKey
from tidepool.resources.kind import AS_KNOWN, IdempotentKind, Made, Refusal, Task
from tidepool.resources.reading import Mistake
from tidepool.resources.values import Plain


class MetalBootKind(IdempotentKind[MetalBootModel]):
    """A file of this machine, for its boot service."""

    resource = MetalBoot

    def create(self, wanted: MetalBootModel, task: Task) -> Made:
        Kept(self._home.data, wanted.stack).write_boot(wanted.boot, wanted.content)
        return Made(wanted.boot)

    def look(self, id: str, state: MetalBootModel) -> Mapping[str, Plain] | None:
        there = Kept(self._home.data, state.stack).read_boot(id)
        # What is otherwise may be a key, and is not worth showing.
        return AS_KNOWN if there == state.content else {"state": "another"}

    def delete(self, id: str, state: MetalBootModel, task: Task) -> None:
        Kept(self._home.data, state.stack).remove_boot(id)


def address_mistakes(address: str) -> Iterable[Mistake]:
    """Yield what is wrong with the address of a machine."""
    try:
        IPv4Address(address)
    except ValueError:
        yield Mistake("address", f"it is {address!r}; an IPv4 address is wanted")


def bootable(kept: Kept, key: MachineKey, boot: str, image: str) -> str:
    """Return what a machine is told by its boot, of one that can be booted.

    Raises:
        Transient: the boot is not on this machine.
        Refusal: the image has no place for it.
    """
    if (user_data := kept.read_boot(boot)) is None:
        raise Transient(f"{key}: the boot {boot} is not there; `tidepool up --refresh` writes it again")
    try:
        seed_at(Path(image))
    except (ImageError, OSError) as error:
        raise Refusal(f"{key}: {image} is nothing to boot from: {error}", "permanent") from error
    return user_data
