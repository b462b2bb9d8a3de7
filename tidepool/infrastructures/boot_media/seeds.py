"""Seeds of hosts, in the place for it in an ISO: who a machine is; or what is to be done with a host's disk.

A seed is a cpio with files that are laid over the image's before its systemd starts. It has keys in it.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any, Final

from tidepool.cluster.failures import Permanent
from tidepool.images.cpio import FILE, FOLDER, LINK, Entry, cpio
from tidepool.images.disk import Layout
from tidepool.images.iso import SEED_BYTES
from tidepool.images.memory_root import UPPER
from tidepool.infrastructures.boot_media.media import Medium, Sums

_UNITS: Final = "etc/systemd/system"
_LIBRARY: Final = "usr/lib/tidepool"
#: What makes the root as large as its disk; there is none.
_OF_DISKS: Final = ("systemd-repart.service", "tidepool-grow.service")
#: Overlays of containers cannot lie on that of a root in memory.
_CONTAINERS: Final = "var-lib-containerd.mount"
_CONTAINERS_UNIT: Final = """\
[Unit]
Description=Containers of this host, in its memory
ConditionFileIsExecutable=/usr/bin/containerd
[Mount]
What=tmpfs
Where=/var/lib/containerd
Type=tmpfs
Options=mode=0711
"""
#: The program of the image that does what a seed of NoCloud says, with what is in a file already in place of a CD.
_PROGRAM: Final = """\
#!/usr/bin/python3 -IS
import importlib.machinery
import importlib.util
import json

loader = importlib.machinery.SourceFileLoader("nocloud", "/usr/lib/tidepool/nocloud")
nocloud = importlib.util.module_from_spec(importlib.util.spec_from_loader("nocloud", loader))
loader.exec_module(nocloud)
with open("/usr/lib/tidepool/metal.json", encoding="utf-8") as file:
    seed = json.load(file)
nocloud.do(seed["said"], seed["node"], again=False)
"""
_RUN_IT: Final = "[Service]\nExecCondition=\nExecStart=\nExecStart=/usr/lib/tidepool/metal\n"
_INSTALLER: Final = Path(__file__).with_name("guest") / "installer.py"
_BOOT_LOG: Final = Path(__file__).with_name("guest") / "boot_log.py"
#: It waits for no work of jobs, and has none of theirs wait.
_LOG_UNIT: Final = """\
[Unit]
Description=What this boot said, for who looks for it
[Service]
Type=exec
ExecStart=/usr/lib/tidepool/boot-log {url}.log
CPUSchedulingPolicy=idle
IOSchedulingClass=idle
"""
_TASK_UNIT: Final = f"""\
[Unit]
Description=The disk of this host
Wants=network-online.target systemd-networkd.service
After=network-online.target sysinit.target
[Service]
Type=oneshot
ExecStart=/{_LIBRARY}/install /{_LIBRARY}/task.json
StandardOutput=journal+console
StandardError=journal+console
"""
_TASK_TARGET: Final = """\
[Unit]
Description=What is to be done with the disk of this host
Requires=sysinit.target
Wants=tidepool-task.service
After=sysinit.target
"""


def seed(medium: Medium, user_data: str, url: str, sums: Sums | None = None) -> bytes:
    """Return the seed of a host. ``url`` is where the boot service has what is the host's, without its ending.

    Raises:
        Permanent: it is larger than its place.
    """
    files = _of_task(medium, user_data, url, sums) if medium.task else _in_memory(medium, user_data, url)
    written = io.BytesIO()
    cpio(_laid_over(files), written)
    if written.tell() > SEED_BYTES:
        raise Permanent(
            f"what the node {medium.node} is told has {written.tell()} bytes, and there is room for {SEED_BYTES}: name fewer fleets, or "
            "keep files elsewhere"
        )
    return written.getvalue().ljust(SEED_BYTES, b"\0")


def _in_memory(medium: Medium, user_data: str, url: str) -> Iterator[Entry]:
    yield from _of_machine(medium, user_data, url)
    yield from _without_a_disk()
    yield Entry(f"{_UNITS}/{_CONTAINERS}", FILE | 0o644, _CONTAINERS_UNIT.encode())
    yield Entry(f"{_UNITS}/local-fs.target.wants/{_CONTAINERS}", LINK | 0o777, f"../{_CONTAINERS}".encode())


def _without_a_disk() -> Iterator[Entry]:
    for unit in _OF_DISKS:
        yield Entry(f"{_UNITS}/{unit}", LINK | 0o777, b"/dev/null")


def _of_machine(medium: Medium, user_data: str, url: str) -> Iterator[Entry]:
    said = json.loads(user_data.partition("\n")[2])
    told = {"node": medium.node, "said": {key: said[key] for key in ("bootcmd", "write_files", "runcmd")}}
    yield Entry(f"{_LIBRARY}/metal", FILE | 0o755, _PROGRAM.encode())
    yield Entry(f"{_LIBRARY}/metal.json", FILE | 0o600, json.dumps(told).encode())
    yield Entry(f"{_UNITS}/tidepool-nocloud.service.d/metal.conf", FILE | 0o644, _RUN_IT.encode())
    if url.startswith("http"):
        yield Entry(f"{_LIBRARY}/boot-log", FILE | 0o755, _BOOT_LOG.read_bytes())
        yield Entry(f"{_UNITS}/tidepool-boot-log.service", FILE | 0o600, _LOG_UNIT.format(url=url).encode())
        yield Entry(
            f"{_UNITS}/multi-user.target.wants/tidepool-boot-log.service",
            LINK | 0o777,
            b"../tidepool-boot-log.service",
        )
    yield _network(medium)


def _network(medium: Medium) -> Entry:
    """Its address. By its name it is before the network of images, which asks for one.

    No router is asked for an address of IPv6: where there is none, that is waited for, 12 seconds of each boot.
    """
    told = [
        f"[Match]\nMACAddress={medium.mac}",
        f"[Network]\nAddress={IPv4Interface(medium.address)}\nIPv6AcceptRA=no",
    ]
    told += [f"Gateway={medium.gateway}"] if medium.gateway else []
    told += [f"DNS={each}" for each in medium.nameservers]
    return Entry("etc/systemd/network/05-tidepool.network", FILE | 0o644, "\n".join([*told, ""]).encode())


def _of_task(medium: Medium, user_data: str, url: str, sums: Sums | None) -> Iterator[Entry]:
    yield Entry(f"{_LIBRARY}/install", FILE | 0o755, _INSTALLER.read_bytes())
    task = json.dumps(task_of(medium, user_data, url, sums)).encode()
    yield Entry(f"{_LIBRARY}/task.json", FILE | 0o600, task)
    yield Entry(f"{_UNITS}/tidepool-task.service", FILE | 0o644, _TASK_UNIT.encode())
    yield Entry(f"{_UNITS}/tidepool-task.target", FILE | 0o644, _TASK_TARGET.encode())
    # Nothing that a node does is done: no daemons, no SSH, no file systems of others.
    yield Entry(f"{_UNITS}/default.target", LINK | 0o777, b"tidepool-task.target")
    yield from _without_a_disk()
    yield _network(medium)


def task_of(medium: Medium, user_data: str, url: str, sums: Sums | None) -> Mapping[str, Any]:
    """Return what the installer is told (`tidepool.infrastructures.boot_media.guest.installer`)."""
    told = {
        "task": medium.task,
        "url": url,
        "stack": medium.stack,
        "node": medium.node,
        "claim": medium.claim,
        "disk": dict(medium.disk),
        "wipe": medium.wipe,
    }
    if sums is None:
        return told
    root = Layout.of(sums.size).root
    files = [
        [each.path, each.mode, base64.b64encode(each.data if isinstance(each.data, bytes) else b"").decode()]
        for each in _of_machine(medium, user_data, url)
    ]
    return told | {
        "size": sums.size,
        "sums": list(sums.sums),
        "root": {"begin": root.begin, "size": root.size},
        "files": files,
    }


def _laid_over(files: Iterable[Entry]) -> Iterator[Entry]:
    """Yield files, each folder above before what is in it: the kernel makes none by itself."""
    made = set()
    for file in files:
        *above, _ = file.path.split("/")
        for end in range(1, len(above) + 1):
            if (folder := "/".join(above[:end])) not in made:
                made.add(folder)
                yield Entry(f"{UPPER}/{folder}", FOLDER | 0o755)
        yield replace(file, path=f"{UPPER}/{file.path}")
