"""BMCs for tests: the Redfish service of sushy-tools, with what it lacks in front of it, and faults.

Its fake driver has systems in memory; here they switch at once, and have processors, memory and a BIOS. AssetTags, ETags and who
may do what are no part of sushy-tools: they are in front of it.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import ssl
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.wrappers import Request, Response

from tests.net_namespace import enter
from tidepool.infrastructures.metal.machine import HostEntry
from tidepool.infrastructures.metal.redfish import BmcLocation

with warnings.catch_warnings():
    # It imports `cgi`.
    warnings.simplefilter("ignore", DeprecationWarning)
    from sushy_tools.emulator import main as sushy_tools
    from sushy_tools.emulator.resources import vmedia
    from sushy_tools.emulator.resources.systems.fakedriver import FakeDriver

USER, PASSWORD = "operator", "correct-horse"
BOOTS = "/images/"
ROOT = "/redfish/v1/Systems/"
FIRMWARE = "/redfish/v1/UpdateService/FirmwareInventory"


class Quiet(WSGIRequestHandler):
    def log(self, *_: Any) -> None:
        """Nothing."""


class Driver(FakeDriver):  # type: ignore[misc]
    """sushy-tools' fake systems, which switch at once; ``on_power`` is what is behind them."""

    on_power: Callable[[str, str], object] = staticmethod(lambda _host, _state: None)

    def set_power_state(self, identity: str, state: str) -> None:
        system = self._get(identity)
        system["resets"] = [*system.get("resets", ()), state]
        if not system.get("stuck"):
            power = "On" if "On" in state or "Restart" in state else "Off"
            # Before what is behind it begins: that may switch it off again, by itself and at once.
            self._update(system, power_state=power)
            self.on_power(identity, power)

    def get_total_memory(self, identity: str) -> int:
        return int(self._get(identity).get("memory_gib", 64))

    def get_total_cpus(self, identity: str) -> int:
        return 1

    def get_processors(self, identity: str) -> list[dict[str, Any]]:
        threads = self._get(identity).get("threads", 16)
        return [
            {
                "id": "CPU0",
                "socket": "CPU 0",
                "vendor": "N/A",
                "model": "N/A",
                "cores": threads,
                "threads": threads,
            }
        ]

    def get_bios(self, identity: str) -> dict[str, str]:
        return dict(self._get(identity).get("bios", {"LogicalProc": "Enabled", "SysProfile": "Balanced"}))

    def set_bios(self, identity: str, attributes: dict[str, str]) -> None:
        self._update(identity, bios=self.get_bios(identity) | attributes)

    def get_versions(self, identity: str) -> dict[str, str]:
        return {"BiosVersion": "2.1.0"}


@dataclass
class Bmcs:
    """Systems by name behind one service at ``url``.

    ``fails`` answers 500 of those systems; ``down`` not at all; ``lose`` so many answers to PATCHes are lost after they were
    done; ``read_only`` are systems that the user may look at alone; ``deaf`` are those whose BMCs say that they wrote it.
    """

    driver: Any
    tags: dict[str, str]
    url: str = ""
    folder: Path = Path()
    #: Where they fetch what they boot.
    namespace: str = ""
    etags: bool = True
    password: str = PASSWORD
    fails: set[str] = field(default_factory=set)
    down: set[str] = field(default_factory=set)
    read_only: set[str] = field(default_factory=set)
    deaf: set[str] = field(default_factory=set)
    no_media: set[str] = field(default_factory=set)
    #: What they list of their firmware, by its names; sushy-tools says where such a list is, and has none.
    firmware: dict[str, str] = field(default_factory=dict)
    lose: int = 0
    before_tag: Callable[[str], object] | None = None
    #: Called before each request that changes something, and after it was done, before it is answered.
    on_change: Callable[[str], object] = lambda _: None

    def system(self, name: str) -> dict[str, Any]:
        return dict(self.driver._systems[name])

    def change(self, name: str, **changes: Any) -> None:
        self.driver._update(self.driver._get(name), **changes)

    def medium(self, name: str) -> Path:
        """What a BMC has fetched for its virtual CD."""
        devices = sushy_tools.app.vmedia._devices.items()
        (fetched,) = {
            each["_local_file"] for (whose, _), each in devices if each.get("Inserted") and whose == name
        }
        return Path(fetched)

    def entry(self, name: str, *, url: str = "", ca: str = "", asset_tag: str = "") -> HostEntry:
        credentials = self.folder / "bmc"
        if not credentials.exists():
            credentials.write_text(f"{USER}:{PASSWORD}\n")
            credentials.chmod(0o600)
        location = BmcLocation(url or self.url, str(credentials), ROOT + name, ca)
        return HostEntry(location, self.system(name)["nics"][0]["mac"], asset_tag)

    def __call__(self, environ: dict[str, Any], start: Any) -> Any:
        # Each request has a thread of its own.
        enter(self.namespace)
        request = Request(environ)
        # Whoever comes next reads it once more.
        environ["wsgi.input"] = io.BytesIO(request.get_data())
        if request.method == "GET":
            return self._answer(request)(environ, start)
        self.on_change("before")
        answer = Response.from_app(self._answer(request), environ)
        self.on_change("after")
        return answer(environ, start)

    def _answer(self, request: Request) -> Any:
        if request.path.startswith(BOOTS):
            # BMCs fetch what they boot.
            return Response(b"an image")
        token = base64.b64encode(f"{USER}:{self.password}".encode()).decode()
        if (
            request.path.rstrip("/") != "/redfish/v1"
            and request.headers.get("Authorization") != f"Basic {token}"
        ):
            return Response('{"error": {"message": "who are you"}}', 401)
        name, _, rest = request.path.removeprefix(ROOT).partition("/")
        if request.path.startswith(ROOT) and name in self.tags:
            if name in self.down:
                raise ConnectionAbortedError
            if name in self.fails:
                return Response('{"error": {"message": "internal"}}', 500)
            if name in self.read_only and request.method != "GET":
                return Response('{"error": {"message": "insufficient privilege"}}', 403)
            if name in self.no_media and rest.startswith("VirtualMedia"):
                return Response("{}", 404)
            if not rest and request.method == "PATCH" and "AssetTag" in (said := request.get_json()):
                return self._tagged(name, said["AssetTag"], request)
            if not rest and request.method == "GET":
                return self._with_tag(name, request)
        if self.firmware and request.path.startswith(FIRMWARE):
            return self._listed(request.path.removeprefix(FIRMWARE).strip("/"))
        return sushy_tools.app

    def _listed(self, name: str) -> Response:
        """The list of firmware, or one of it."""
        members = [{"@odata.id": f"{FIRMWARE}/{each}"} for each in self.firmware]
        one = {"Id": name, "Version": self.firmware.get(name)}
        said = {"Name": name or "Firmware", **(one if name else {"Members": members})}
        return Response(json.dumps(said), content_type="application/json")

    def _tagged(self, name: str, tag: str, request: Request) -> Response:
        if self.before_tag is not None:
            self.before_tag(name)
        if self.etags and request.headers.get("If-Match") not in (None, self._etag(name)):
            return Response('{"error": {"message": "the ETag did not match"}}', 412)
        if name not in self.deaf:
            self.tags[name] = tag
        if self.lose:
            self.lose -= 1
            raise ConnectionAbortedError
        return Response(status=204)

    def _etag(self, name: str) -> str:
        return f'"{name}{self.tags[name]}"'

    def _with_tag(self, name: str, request: Request) -> Response:
        said = Response.from_app(sushy_tools.app, request.environ)
        document = json.loads(said.get_data()) | {"AssetTag": self.tags[name]}
        headers = {"ETag": self._etag(name)} if self.etags else {}
        return Response(json.dumps(document), said.status_code, headers, content_type="application/json")


def signed_for_itself(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """What BMCs at 127.0.0.1 are served with, and the certificate of who signed theirs."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bmc")]), datetime.now(UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    ca, whole = folder / "ca.pem", folder / "whole.pem"
    ca.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    whole.write_bytes(secret + ca.read_bytes())
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(whole)
    return context, ca


@contextlib.contextmanager
def bmcs(
    *names: str, context: ssl.SSLContext | None = None, namespace: str = "", address: str = "127.0.0.1"
) -> Iterator[Bmcs]:
    """So many hosts, all off and nobody's, by HTTP or with ``context`` by HTTPS; at ``address`` of a network namespace."""
    systems = [
        {
            "uuid": name,
            "name": f"name-of-{name}",
            "power_state": "Off",
            "nics": [{"mac": f"52:54:00:00:00:{at:02x}", "ip": ""}],
        }
        for at, name in enumerate(names, 1)
    ]
    with TemporaryDirectory(prefix="bmcs-") as folder:
        settings = {"SUSHY_EMULATOR_FAKE_SYSTEMS": systems, "SUSHY_EMULATOR_FAKE_DRIVER": True}
        app = configured(folder, settings)
        driver = Driver.initialize(app.config, app.logger)()
        with served(
            Bmcs(driver, dict.fromkeys(names, ""), folder=Path(folder)), context, namespace, address
        ) as it:
            yield it


def configured(folder: str, settings: Mapping[str, Any]) -> Any:
    """sushy-tools' service with those settings, and its files in ``folder``."""
    app = sushy_tools.app
    app.config |= {"SUSHY_EMULATOR_STATE_DIR": folder, "SUSHY_EMULATOR_FEATURE_SET": "full", **settings}
    app.logger.disabled = True
    return app


class _Files:
    """Functions of `tempfile` that media of sushy-tools call, for a folder."""

    def __init__(self, folder: str) -> None:
        self.mkdtemp = partial(tempfile.mkdtemp, dir=folder)
        self.NamedTemporaryFile = partial(tempfile.NamedTemporaryFile, dir=folder)


@contextlib.contextmanager
def served(
    made: Bmcs, context: ssl.SSLContext | None = None, namespace: str = "", address: str = "127.0.0.1"
) -> Iterator[Bmcs]:
    """The BMCs of systems answer there."""
    app, made.namespace = sushy_tools.app, namespace
    # What it keeps of drivers and of its own is of another test.
    app._cache = {}
    type(app).systems = property(lambda _: made.driver)
    with ThreadPoolExecutor(1, initializer=partial(enter, namespace)) as there:
        server = there.submit(
            make_server, address, 0, made, threaded=True, request_handler=Quiet, ssl_context=context
        ).result()
    made.url = f"{'https' if context else 'http'}://{address}:{server.server_port}"
    # Where it has what it fetched, which it leaves there; and nobody else's.
    files, vmedia.tempfile = vmedia.tempfile, _Files(str(made.folder))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        vmedia.tempfile = files
        server.shutdown()
        thread.join()
        server.server_close()
