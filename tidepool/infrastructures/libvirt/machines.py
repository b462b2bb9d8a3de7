"""The machines of libvirt's hosts as the infrastructure that the scaler looks at and sweeps.

They are made by pulumi-libvirt's resources; here they are found and deleted. A machine that was defined and did not
start is found too: the plugin leaves it behind, and Pulumi knows nothing of it.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal

from tidepool.cluster import addresses
from tidepool.cluster.failures import InfrastructureError, Transient
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures import Infrastructure, Machine, MachineKey
from tidepool.infrastructures.libvirt.ask import Virsh, done, kinds_of_failures, output_of, virsh
from tidepool.infrastructures.libvirt.domain import Identity, pool_of, read_identity
from tidepool.infrastructures.libvirt.reading import read_options
from tidepool.infrastructures.machines import NO_ADDRESS

_DOMAIN: Final = re.compile(r"^<domain\b.*?^</domain>", re.MULTILINE | re.DOTALL)
#: Of the names that Tidepool gives.
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
#: So many machines are asked for at a time: a command line has an end.
_AT_ONCE: Final = 100


def machines_of(spec: ClusterSpec, _stack: str, _data: Path) -> Infrastructure:
    """The machines on all hosts that the spec names. Whose they are, they say themselves; keys of SSH are of no use here."""
    return Machines(read_options(spec).place.hosts)


@dataclass(frozen=True, slots=True)
class _Found:
    """A machine with the host that it is on, and the volumes that its disks are, of its stack's pool."""

    machine: Machine
    uri: str
    volumes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Machines:
    """`tidepool.infrastructures.Infrastructure`, of libvirt's ``hosts``: their URIs by name.

    A host that does not answer fails all of it: its machines are not seen then, and are not gone.
    """

    hosts: Mapping[str, str]
    virsh: Virsh = virsh

    def read(self, key: MachineKey) -> Machine | None:
        return next((found.machine for found in self._found(key)), None)

    def list(self, stack: str) -> tuple[Machine, ...]:
        found = self._on_hosts(stack, lambda name: name.startswith(f"{stack}-"))
        return tuple(sorted((each.machine for each in found), key=lambda machine: machine.key))

    def delete(self, key: MachineKey) -> None:
        """The domain is the last that goes: for as long as something of the machine is there, it can be found."""
        for found in self._found(key):
            try:
                with kinds_of_failures():
                    self._take_away(found)
            except InfrastructureError:
                # Somebody else may have been faster.
                if self._found(key):
                    raise

    def _take_away(self, found: _Found) -> None:
        run, name = partial(done, self.virsh, found.uri), found.machine.machine_id
        run("destroy", name, unless="domain is not running")
        for volume in found.volumes:
            pool = pool_of(found.machine.key.stack)
            run("vol-delete", "--pool", pool, volume, unless="Storage (volume|pool) not found")
        run("undefine", "--nvram", "--managed-save", name)

    def _found(self, key: MachineKey) -> Sequence[_Found]:
        name = Identity(key.stack, key.node).domain
        found = self._on_hosts(key.stack, lambda other: other == name)
        return [each for each in found if key.matches(each.machine.key)]

    def _on_hosts(self, stack: str, is_meant: Callable[[str], bool]) -> Sequence[_Found]:
        """All at once: over SSH, each takes a second."""

        def on(uri: str) -> Sequence[_Found]:
            with kinds_of_failures():
                return tuple(_machines(self.virsh, uri, stack, is_meant))

        with ThreadPoolExecutor(max(1, len(self.hosts))) as threads:
            return [found for several in threads.map(on, self.hosts.values()) for found in several]


def _machines(run: Virsh, uri: str, stack: str, is_meant: Callable[[str], bool]) -> Iterator[_Found]:
    names = [name for name in _names(run, uri) if is_meant(name) and _NAME.fullmatch(name)]
    for start in range(0, len(names), _AT_ONCE):
        domains = _domains(run, uri, names[start : start + _AT_ONCE])
        saved = _saved(run, uri, [domain for domain in domains if domain.get("id") is None])
        for domain in domains:
            identity = read_identity(domain)
            if identity is not None and identity.stack == stack:
                yield _to_machine(domain, identity, uri, is_saved=domain.findtext("name") in saved)


def _saved(run: Virsh, uri: str, domains: Sequence[ET.Element]) -> set[str]:
    """Return the names of those whose memory is there: libvirt itself may take a file for there that is lost."""
    if not domains:
        return set()
    names = (domain.findtext("name", "") for domain in domains)
    # Those of which there is none are errors, and the others are told of.
    said = run(uri, "; ".join(f"managedsave-dumpxml {name}" for name in names))
    return {domain.findtext("name", "") for domain in _read(said.stdout)}


def _domains(run: Virsh, uri: str, names: Sequence[str]) -> Sequence[ET.Element]:
    """Return the domains of these names. One that nothing is told of is gone only when it is not listed any more."""
    said = run(uri, "; ".join(f"dumpxml {name}" for name in names))
    domains = _read(said.stdout)
    untold = {*names} - {domain.findtext("name") for domain in domains}
    if untold and (there := untold & {*_names(run, uri)}):
        raise Transient(
            f"{uri} does not say what {', '.join(sorted(there))} is: {' '.join(said.stderr.split())}"
        )
    return domains


def _read(text: str) -> Sequence[ET.Element]:
    return [ET.fromstring(each) for each in _DOMAIN.findall(text)]  # noqa: S314 - said by a libvirtd


def _names(run: Virsh, uri: str) -> Sequence[str]:
    return [name for name in output_of(run, uri, "list", "--all", "--name").splitlines() if name]


def _to_machine(domain: ET.Element, identity: Identity, uri: str, *, is_saved: bool) -> _Found:
    macs = (mac.get("address", "") for mac in domain.iterfind("devices/interface/mac"))
    places = [place for place in map(addresses.of_mac, macs) if place is not None]
    key = MachineKey(identity.stack, identity.node, domain.findtext("uuid", ""))
    # A domain that runs has a number.
    state: Literal["running", "suspended", "stopped"] = "running"
    if domain.get("id") is None:
        state = "suspended" if is_saved else "stopped"
    machine = Machine(key, places[0] if places else NO_ADDRESS, state)
    sources = domain.iterfind("devices/disk[@device='disk']/source")
    mine = [source.get("volume", "") for source in sources if source.get("pool") == pool_of(identity.stack)]
    return _Found(machine, uri, tuple(filter(None, mine)))
