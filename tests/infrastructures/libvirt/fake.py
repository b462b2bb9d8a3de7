"""Hosts that run libvirt, in memory: what `virsh` says there, in its words, and the faults that real hosts have."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from uuid import uuid4

from tidepool.infrastructures.libvirt.ask import LibvirtError, Said

_NO_MEMORY = (
    "internal error: process exited while connecting to monitor: 2026-11-22T15:43:35.566251Z qemu-system-x86_64: "
    "cannot set up guest memory 'pc.ram': Cannot allocate memory"
)
_NO_PAGES = (
    "internal error: process exited while connecting to monitor: qemu-system-x86_64: unable to map backing store for "
    "guest RAM: Cannot allocate memory"
)
_POOL_FULL = (
    "internal error: Child process (/usr/bin/qemu-img create -f qcow2 -o compat=0.10 /pool/{name} 102400K) unexpected "
    "exit status 1: qemu-img: /pool/{name}: Could not write qcow2 header: No space left on device"
)
_SAVES_FULL = "Unable to write /var/lib/libvirt/qemu/save/x.save: No space left on device"
_DENIED = "access denied: 'QEMU' denied access"


@dataclass
class FakeHost:
    """One of them.

    What may be set at any time:

    - ``memory_mib``: how much its machines that run can have together, and ``pages`` the same of huge pages.
    - ``room``: how many volumes its pools have room for.
    - ``unseen``: names of domains that are not listed yet.
    - ``is_full``: no memory can be saved.
    - ``refuses``: names of domains that nobody may delete.
    - ``loses``: commands whose next answer gets lost, after they were done.
    - ``down``: nothing is answered.
    """

    memory_mib: int = 1024
    pages: int = 0
    room: int = 100
    unseen: set[str] = field(default_factory=set)
    refuses: set[str] = field(default_factory=set)
    loses: set[str] = field(default_factory=set)
    down: bool = False
    is_full: bool = False
    #: Domains whose memory is saved.
    saved: set[str] = field(default_factory=set)
    domains: dict[str, ET.Element] = field(default_factory=dict)
    running: dict[str, int] = field(default_factory=dict)
    pools: dict[str, set[str]] = field(default_factory=dict)
    #: By pool and volume, the one that it stands on.
    backing: dict[tuple[str, str], str] = field(default_factory=dict)
    made: int = 0

    # What virsh does

    def say(self, words: tuple[str, ...], stdin: str) -> Said:
        """It tells of each command, and ends as the last of them did."""
        if len(words) == 1:
            commands = [command.split() for command in words[0].split("; ")]
        else:
            commands = [list(words)]
        out, errors, code = "", "", 0
        for verb, *rest in commands:
            try:
                out += getattr(self, f"_{verb.replace('-', '_')}")(*rest, stdin=stdin) + "\n"
                code = 0
            except _Refused as refused:
                errors += "".join(f"error: {line}\n" for line in refused.args)
                code = 1
        return Said(words, code, out, errors)

    def _list(self, *_: str, stdin: str) -> str:
        return "\n".join(sorted({*self.domains} - self.unseen))

    def _dumpxml(self, name: str, *, stdin: str) -> str:
        name = self._known(name)
        domain = ET.fromstring(ET.tostring(self.domains[name]))
        if name in self.running:
            domain.set("id", str(self.running[name]))
        return ET.tostring(domain, encoding="unicode")

    def _define(self, _: str, *, stdin: str) -> str:
        domain = ET.fromstring(stdin)
        name = domain.findtext("name") or ""
        if name in self.domains:
            uuid = self.domains[name].findtext("uuid")
            raise _Refused(
                "Failed to define domain from /dev/stdin",
                f"operation failed: domain '{name}' already exists with uuid {uuid}",
            )
        self.made += 1
        ET.SubElement(domain, "uuid").text = str(uuid4())
        domain[-1].tail = "\n"
        self.domains[name] = domain
        return f"Domain '{name}' defined from /dev/stdin"

    def _start(self, name: str, *, stdin: str) -> str:
        name = self._known(name)
        if name in self.running:
            raise _Refused("Domain is already active")
        if self._used(self.running) + self._used([name]) > self.memory_mib:
            raise _Refused(f"Failed to start domain '{name}'", _NO_MEMORY)
        huge = sum(self._wants_pages(each) for each in [*self.running, name])
        if huge > self.pages:
            raise _Refused(f"Failed to start domain '{name}'", _NO_PAGES)
        self.made += 1
        self.running[name] = self.made
        self.saved.discard(name)
        return f"Domain '{name}' started"

    def _domstate(self, name: str, *, stdin: str) -> str:
        return "running" if self._known(name) in self.running else "shut off"

    def _managedsave(self, _: str, name: str, *, stdin: str) -> str:
        name = self._known(name)
        if name not in self.running:
            raise _Refused(
                f"Failed to save domain '{name}' state",
                "Requested operation is not valid: domain is not running",
            )
        if self.is_full:
            raise _Refused(f"Failed to save domain '{name}' state", _SAVES_FULL)
        del self.running[name]
        self.saved.add(name)
        return f"Domain '{name}' state saved by libvirt"

    def _managedsave_dumpxml(self, name: str, *, stdin: str) -> str:
        name = self._known(name)
        if name not in self.saved:
            raise _Refused("Requested operation is not valid: domain does not have managed save image")
        return ET.tostring(self.domains[name], encoding="unicode")

    def _destroy(self, name: str, *, stdin: str) -> str:
        name = self._known(name)
        if name in self.refuses:
            raise _Refused(f"Failed to destroy domain '{name}'", _DENIED)
        if name not in self.running:
            raise _Refused(
                f"Failed to destroy domain '{name}'",
                "Requested operation is not valid: domain is not running",
            )
        del self.running[name]
        return f"Domain '{name}' destroyed"

    def _undefine(self, *words: str, stdin: str) -> str:
        name = self._known(next(word for word in words if not word.startswith("--")))
        assert name not in self.running, "a domain that runs would become a transient one"
        del self.domains[name]
        self.saved.discard(name)
        return f"Domain '{name}' has been undefined"

    def _vol_create_as(self, pool: str, name: str, *more: str, stdin: str) -> str:
        volumes = self.pools.setdefault(pool, set())
        if name in volumes:
            raise _Refused(f"Failed to create vol {name}", f"storage volume '{name}' exists already")
        if sum(map(len, self.pools.values())) >= self.room:
            raise _Refused(f"Failed to create vol {name}", _POOL_FULL.format(name=name))
        if "--backing-vol" in more:
            under = more[more.index("--backing-vol") + 1]
            if under not in volumes:
                raise _Refused(
                    f"failed to get vol '{under}'",
                    f"Storage volume not found: no storage vol with matching path '{under}'",
                )
            self.backing[pool, name] = under
        volumes.add(name)
        return f"Vol {name} created"

    def _vol_dumpxml(self, *words: str, stdin: str) -> str:
        pool, name = self._volume(words)
        under = self.backing.get((pool, name))
        backing = f"<backingStore><path>/{pool}/{under}</path></backingStore>" if under else ""
        return f"<volume><name>{name}</name>{backing}</volume>"

    def _vol_delete(self, *words: str, stdin: str) -> str:
        pool, name = self._volume(words)
        self.pools[pool].remove(name)
        self.backing.pop((pool, name), None)
        return f"Vol {name} deleted"

    def _volume(self, words: tuple[str, ...]) -> tuple[str, str]:
        _, pool, name = words
        if pool not in self.pools:
            raise _Refused(
                f"failed to get pool '{pool}'",
                f"Storage pool not found: no storage pool with matching name '{pool}'",
            )
        if name not in self.pools[pool]:
            raise _Refused(
                f"failed to get vol '{name}'",
                f"Storage volume not found: no storage vol with matching path '{name}'",
            )
        return pool, name

    def _known(self, name: str) -> str:
        for known, domain in self.domains.items():
            if name in (known, domain.findtext("uuid")):
                return known
        raise _Refused(f"failed to get domain '{name}'")

    def _used(self, names: list[str] | dict[str, int]) -> int:
        return sum(int(self.domains[name].findtext("memory") or 0) for name in names)

    def _wants_pages(self, name: str) -> int:
        domain = self.domains[name]
        return self._used([name]) // 2 if domain.find("memoryBacking/hugepages") is not None else 0


class FakeHosts:
    """`tidepool.infrastructures.libvirt.ask.Virsh`, of hosts in memory by their URIs."""

    def __init__(self, **hosts: FakeHost) -> None:
        self.hosts = {f"qemu+ssh://root@{name}/system": host for name, host in hosts.items()}
        #: What was asked of each, by its URI.
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, uri: str, *words: str, stdin: str = "") -> Said:
        host = self.hosts[uri]
        self.asked.append((uri, *words))
        if host.down:
            return Said(
                words,
                1,
                "",
                "error: failed to connect to the hypervisor\nerror: Cannot recv data: ssh: connect to host alpha port "
                "22: Connection refused: Connection reset by peer\n",
            )
        said = host.say(words, stdin)
        if words[0] in host.loses:
            host.loses.remove(words[0])
            raise LibvirtError(f"{uri} does not answer within 30 s; try it by hand")
        return said


class _Refused(Exception):
    """What virsh writes to its standard error."""
