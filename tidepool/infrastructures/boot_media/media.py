"""Media that hosts boot from: the image's ISO, with what each machine is in the place of its seed; and where that is kept.

Everything of it is below ``<data>/<stack>/metal``, for root alone: boots have keys in them. A host's ISO is put together while it
is read, so that another boot is taken whenever a host boots.

site.json          the hosts, as the provider asks them
boots/NAME         what machines are told
hosts/HOST.json    the medium of a host
reports/HOST.json  what a host said of the task that it was booted for
logs/HOST.log      what a host said of its last boot; HOST.before.log: of the one before
failures/HOST.json a host that failed, and when (`tidepool.infrastructures.metal.resting`)
sums/SHA256.json   the sums of the parts of an image's disk
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from tidepool.cluster.failures import Permanent
from tidepool.images.store import sha256_of
from tidepool.infrastructures.boot_media.guest.installer import CHUNK, digest
from tidepool.infrastructures.local.kernel.private import remove_private, write_private

#: What a host is booted for: to be the node, or to have its disk written, or wiped.
Task = Literal["", "install", "wipe"]


@dataclass(frozen=True, slots=True)
class Medium:
    """The medium of a host: the ISO ``image``, as the node ``node`` with the boot ``boot`` of its stack.

    ``address`` is that of the interface ``mac``, with its prefix. With ``disk_image`` its root is on a disk, which is as ``disk``
    says, and is wiped as ``wipe`` says. ``claim`` is the claim's id, and a host has ``begun`` once it may have been switched on.
    """

    stack: str
    node: str
    image: str
    boot: str
    mac: str
    address: str
    gateway: str = ""
    nameservers: tuple[str, ...] = ()
    claim: str = ""
    task: Task = ""
    disk_image: str = ""
    disk: Mapping[str, Any] = field(default_factory=dict)
    wipe: str = "all"
    begun: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """Report of a host on the ``task`` that it was booted for. It ``wrote``, where it is not known that it did not."""

    claim: str
    task: str
    is_done: bool
    what: str
    wrote: bool = True


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums of the parts of a disk of ``size`` bytes, one after the other."""

    size: int
    sums: tuple[str, ...]

    @classmethod
    def of(cls, disk: Path) -> Sums:
        """Return those of a file."""
        with disk.open("rb") as file:
            return cls(
                disk.stat().st_size, tuple(digest(data) for data in iter(lambda: file.read(CHUNK), b""))
            )


@dataclass(frozen=True, slots=True)
class Kept:
    """The media and boots of a stack, in files of this machine."""

    data: Path
    stack: str

    @property
    def folder(self) -> Path:
        return self.data / self.stack / "metal"

    def write_file(self, path: Path, text: str) -> None:
        """Write a file of that folder, for root alone."""
        write_private(path, text)

    def write_site(self, site: str) -> None:
        write_private(self.folder / "site.json", site)

    def read_site(self) -> str | None:
        return _text(self.folder / "site.json")

    def remove_site(self) -> None:
        remove_private(self.folder / "site.json", below=self.data)

    def write_boot(self, boot: str, user_data: str) -> None:
        write_private(self._boot(boot), user_data)

    def read_boot(self, boot: str) -> str | None:
        return _text(self._boot(boot))

    def remove_boot(self, boot: str) -> None:
        remove_private(self._boot(boot), below=self.data)

    def write(self, host: str, medium: Medium) -> None:
        write_private(self._medium(host), json.dumps(asdict(medium)))

    def remove(self, host: str) -> None:
        remove_private(self._medium(host), below=self.data)
        remove_private(self._report(host), below=self.data)

    def write_report(self, host: str, report: Report) -> None:
        write_private(self._report(host), json.dumps(asdict(report)))

    def read_report(self, host: str, claim: str, task: Task) -> Report | None:
        """Return what a host said of that task, once it has."""
        if (text := _text(self._report(host))) is None:
            return None
        report = Report(**json.loads(text))
        return report if (report.claim, report.task) == (claim, task) else None

    def remove_failure(self, host: str) -> None:
        """Remove a report of what was not done: it is tried once more."""
        if (text := _text(self._report(host))) is not None and not json.loads(text)["is_done"]:
            self._report(host).unlink(missing_ok=True)

    def write_log(self, host: str, log: str) -> None:
        write_private(self.log(host), log)

    def log(self, host: str) -> Path:
        return self.folder / "logs" / f"{host}.log"

    def set_log_aside(self, host: str) -> None:
        """Have what the boot before this one said be that of the one before."""
        with contextlib.suppress(FileNotFoundError):
            self.log(host).replace(self.folder / "logs" / f"{host}.before.log")

    def sums(self, disk: Path) -> Sums:
        """Return the sums of an image's disk, made once."""
        told = disk.with_name(f"{disk.name}.sha256").read_text().split()[0]
        path = self.folder / "sums" / f"{told}.json"
        if (text := _text(path)) is None:
            if (now := sha256_of(disk)) != told:
                raise Permanent(
                    f"{disk} is not what was written there: its sum is {now}, and was {told}; see `tidepool image verify`, remove the "
                    "image, and bring it up again"
                )
            made = Sums.of(disk)
            write_private(path, json.dumps(asdict(made)))
            return made
        known = json.loads(text)
        return Sums(known["size"], tuple(known["sums"]))

    def read(self, host: str) -> Medium | None:
        if (text := _text(self._medium(host))) is None:
            return None
        known: dict[str, Any] = json.loads(text)
        # One of a release before this one does not say whose it is.
        return Medium(**{"stack": self.stack, **known, "nameservers": tuple(known["nameservers"])})

    def path(self, host: str) -> str:
        """Return the path of what is a host's at the boot service, without its ending. Who knows it can read what the machine is told."""
        return f"/{self.stack}/{host}/{self._token(host)}"

    def url(self, host: str) -> str:
        """Return where that is for BMCs and hosts."""
        site = json.loads(self.read_site() or "{}")
        return f"{site.get('boot_service', '').rstrip('/')}{self.path(host)}"

    def allows(self, host: str, token: str) -> bool:
        return hmac.compare_digest(self._token(host), token)

    def _token(self, host: str) -> str:
        path = self.folder / "key"
        if (key := _text(path)) is None:
            key = secrets.token_hex(32)
            write_private(path, key)
        return hmac.new(key.encode(), f"{self.stack}/{host}".encode(), hashlib.sha256).hexdigest()[:32]

    def _boot(self, boot: str) -> Path:
        return self.folder / "boots" / boot

    def _medium(self, host: str) -> Path:
        return self.folder / "hosts" / f"{host}.json"

    def _report(self, host: str) -> Path:
        return self.folder / "reports" / f"{host}.json"


def _text(path: Path) -> str | None:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return None
