"""BMCs with a disk behind each host, and a processor that does what its medium says: the installer runs, at a file, in a thread."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.infrastructures.metal.bmcs import Bmcs, bmcs
from tests.infrastructures.metal.kernel_hosts import unpacked
from tidepool.images.disk import MIB, Layout
from tidepool.images.iso import SEED_BYTES, seed_at
from tidepool.images.memory_root import UPPER
from tidepool.infrastructures.boot_media.guest import installer
from tidepool.infrastructures.boot_media.kinds import MetalBootKind
from tidepool.infrastructures.boot_media.media import Kept
from tidepool.infrastructures.boot_media.resources import MetalBootModel
from tidepool.infrastructures.boot_media.service import service
from tidepool.infrastructures.metal.kinds import MetalMachineKind, MetalSiteKind
from tidepool.infrastructures.metal.resources import MetalMachineModel, MetalSiteModel
from tidepool.resources.kind import Home, Task

NAMES: Final = ("alpha", "beta")
CONTENT: Final = '#cloud-config\n{"bootcmd": [], "write_files": [], "runcmd": []}'
_ROOT_MIB: Final = 8
DISK_MIB: Final = 80


def a_task(seconds: float = 900) -> Task:
    say: Any = lambda _: None  # noqa: E731
    return Task("urn", seconds, time.monotonic() + seconds, say, say, say)


def a_machine(iso: Path, disk_image: str, **more: Any) -> MetalMachineModel:
    """A machine of the stack `one`, with its root on a disk where an image is one."""
    told = {"cpus": 1, "memory_mib": 64, "image": str(iso), "disk_image": disk_image, **more}
    return MetalMachineModel(
        stack="one", site="one", machine="cpu-1", address="10.77.10.1", boot="cpu", **told
    )


def an_image(folder: Path) -> Path:
    """An image as a disk, with a root of some MiB and nothing that boots."""
    disk, root = folder / "image.disk", folder / "root"
    subprocess.run(["mke2fs", "-q", "-t", "ext4", root, f"{_ROOT_MIB}M"], check=True)
    layout = Layout.around(_ROOT_MIB * MIB)
    with disk.open("wb") as file:
        file.write(b"EFI PART")
        file.seek(layout.root.begin)
        file.write(root.read_bytes())
        file.truncate(layout.size)
    told = subprocess.run(["sha256sum", disk], check=True, capture_output=True, text=True).stdout
    (folder / "image.disk.sha256").write_text(told)
    return disk


@dataclass
class DiskHosts:
    """Hosts of the stack `one`, whose data are in ``data``. ``cut`` says at which bytes of the image a host loses its power, once."""

    folder: Path
    bmcs: Bmcs
    iso: Path
    image: Path
    boot_service: str
    cut: dict[str, int] = field(default_factory=dict)
    #: What hosts were booted for, in their order.
    booted: list[tuple[str, str]] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def kept(self) -> Kept:
        return Kept(self.data, "one")

    def disk(self, host: str) -> Path:
        return self.folder / f"{host}.disk"

    def kind(self, sleep: Callable[[float], None] = lambda _: time.sleep(0.02)) -> MetalMachineKind:
        return MetalMachineKind(Home(self.data, self.folder), sleep=sleep, silence=lambda _: "")

    def machine(self, **more: Any) -> MetalMachineModel:
        return a_machine(self.iso, more.pop("disk_image", str(self.image)), **more)

    def claims(self) -> dict[str, str]:
        return {host: tag for host, tag in self.bmcs.tags.items() if tag}

    def power(self, host: str, state: str) -> None:
        """The host is switched."""
        if state == "On":
            threading.Thread(target=self._boot, args=(host,), daemon=True).start()

    def _boot(self, host: str) -> None:
        try:
            self._run(host)
        except BaseException as error:
            self.failures.append(error)
            raise

    def _run(self, host: str) -> None:
        system = self.bmcs.system(host)
        if system.get("boot_device") != "Cd":
            self.booted.append((host, "disk"))
            return
        with self.bmcs.medium(host).open("rb") as file:
            file.seek(seed_at(self.iso))
            seed = {path.removeprefix(f"{UPPER}/"): told for path, told in unpacked(file.read(SEED_BYTES))}
        if (told := seed.get("usr/lib/tidepool/task.json")) is None:
            self.booted.append((host, "memory"))
            return
        task = json.loads(told[1])
        self.booted.append((host, task["task"]))
        self._do(host, task)
        self.bmcs.change(host, power_state="Off")

    def _do(self, host: str, task: dict[str, Any]) -> None:
        path = self.disk(host)
        found = [{"path": str(path), "size": path.stat().st_size, "serial": f"of-{host}", "wwn": ""}]
        fetch, cut_at = installer.by_http(task["url"]), self.cut.pop(host, None)

        def until_cut(begin: int, end: int) -> bytes:
            if cut_at is not None and begin >= cut_at:
                raise InterruptedError
            return fetch(begin, end)

        told = {"claim": task["claim"], "task": task["task"]}
        try:
            told |= {
                "isDone": True,
                "what": installer.do(task, found, until_cut, str(self.folder / f"{host}.root")),
            }
        except InterruptedError:
            return
        except installer.Refused as error:
            told |= {"isDone": False, "what": str(error), "wrote": not isinstance(error, installer.Untouched)}
        installer.report(task["url"], told)


@contextmanager
def disk_hosts(folder: Path, iso: Path) -> Iterator[DiskHosts]:
    """Two hosts with empty disks, all off and nobody's, and the boot service of the stack."""
    server = service(folder / "data", "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        with bmcs(*NAMES) as made:
            url = f"http://127.0.0.1:{server.server_address[1]}"
            it = DiskHosts(folder, made, iso, an_image(folder), url)
            made.driver.on_power = it.power
            for host in NAMES:
                with it.disk(host).open("wb") as file:
                    file.truncate(DISK_MIB * MIB)
            site = MetalSiteModel(
                stack="one", hosts={host: made.entry(host) for host in NAMES}, boot_service=url, prefix=16
            )
            home = Home(it.data, folder)
            MetalSiteKind(home).create(site, a_task())
            MetalBootKind(home).create(MetalBootModel(stack="one", boot="cpu", content=CONTENT), a_task())
            yield it
            assert it.failures == []
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
