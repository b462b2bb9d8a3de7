"""Media that hosts boot from: the image's ISO, with what each machine is in the place of its seed; and where that is kept.

Everything of it is below ``<data>/<stack>/metal``, for root alone: boots have keys in them. A host's ISO is put together while it
is read, so that another boot is taken whenever a host boots.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any, Final

from tidepool.cluster.failures import Permanent
from tidepool.images.iso import SEED_BYTES, Entry, cpio, seed_at
from tidepool.infrastructures.local.kernel.private import remove_private, write_private

_FILE, _FOLDER, _LINK = 0o100000, 0o040000, 0o120000
_UNITS: Final = "etc/systemd/system"
#: What makes disks of the image larger; there is none.
_OF_DISKS: Final = ("systemd-repart.service", "tidepool-grow.service")
#: The program of the image that does what a seed of NoCloud says, with what is in memory already in place of a CD.
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


@dataclass(frozen=True, slots=True)
class Medium:
    """The medium of a host: the ISO ``image``, as the node ``node`` with the boot ``boot`` of its stack.

    ``address`` is that of the interface ``mac``, with its prefix.
    """

    node: str
    image: str
    boot: str
    mac: str
    address: str
    gateway: str = ""
    nameservers: tuple[str, ...] = ()


def seed(medium: Medium, user_data: str) -> bytes:
    """Return the seed: a cpio that the kernel unpacks over the image's root. It has keys in it.

    Raises:
        Permanent: it is larger than its place.
    """
    said = json.loads(user_data.partition("\n")[2])
    told = {"node": medium.node, "said": {key: said[key] for key in ("bootcmd", "write_files", "runcmd")}}
    network = [f"[Match]\nMACAddress={medium.mac}", f"[Network]\nAddress={IPv4Interface(medium.address)}"]
    network += [f"Gateway={medium.gateway}"] if medium.gateway else []
    network += [f"DNS={each}" for each in medium.nameservers]
    written = io.BytesIO()
    cpio(_entries(json.dumps(told), "\n".join([*network, ""])), written)
    if written.tell() > SEED_BYTES:
        raise Permanent(
            f"what the node {medium.node} is told has {written.tell()} bytes, and there is room for {SEED_BYTES}: name fewer fleets, or "
            "keep files elsewhere"
        )
    return written.getvalue().ljust(SEED_BYTES, b"\0")


def _entries(told: str, network: str) -> Iterator[Entry]:
    yield Entry("usr/lib/tidepool/metal", _FILE | 0o755, _PROGRAM.encode())
    yield Entry("usr/lib/tidepool/metal.json", _FILE | 0o600, told.encode())
    yield Entry(f"{_UNITS}/tidepool-nocloud.service.d", _FOLDER | 0o755)
    yield Entry(f"{_UNITS}/tidepool-nocloud.service.d/metal.conf", _FILE | 0o644, _RUN_IT.encode())
    # Before that of images, which asks for an address.
    yield Entry("etc/systemd/network/05-tidepool.network", _FILE | 0o644, network.encode())
    for unit in _OF_DISKS:
        yield Entry(f"{_UNITS}/{unit}", _LINK | 0o777, b"/dev/null")


@dataclass(frozen=True, slots=True)
class Kept:
    """The media and boots of a stack, in files of this machine."""

    data: Path
    stack: str

    @property
    def folder(self) -> Path:
        return self.data / self.stack / "metal"

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

    def read(self, host: str) -> Medium | None:
        if (text := _text(self._medium(host))) is None:
            return None
        known: dict[str, Any] = json.loads(text)
        return Medium(**known | {"nameservers": tuple(known["nameservers"])})

    def path(self, host: str) -> str:
        """Return the path of a host's ISO at the boot service. Who knows it can read what the machine is told."""
        return f"/{self.stack}/{host}/{self._token(host)}.iso"

    def allows(self, host: str, token: str) -> bool:
        return hmac.compare_digest(self._token(host), token)

    def parts(self, host: str) -> Sequence[tuple[int, Path | bytes]] | None:
        """Return what a host's ISO is put together from, each with how long it is; None where the host boots nothing."""
        medium = self.read(host)
        user_data = self.read_boot(medium.boot) if medium else None
        if medium is None or user_data is None:
            return None
        iso = Path(medium.image)
        at, told = seed_at(iso), seed(medium, user_data)
        rest = iso.stat().st_size - at - len(told)
        return ((at, iso), (len(told), told), (rest, iso))

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


def _text(path: Path) -> str | None:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return None
