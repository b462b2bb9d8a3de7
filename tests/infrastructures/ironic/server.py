"""An Ironic for tests, the real one: API and conductor in one process, SQLite, `http_basic`, the hardware type redfish."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import bcrypt
import requests

from tests.net_namespace import enter

USER, PASSWORD = "tidepool", "battery-staple"
CLOUD: Final = "site"
#: For what Ironic does on a busy machine.
LONG_S: Final = 240.0
#: Ironic hashes each BMC's password 600,000 times at each question, for the key of a table in memory: most of what it would do here.
_PROGRAM: Final = """
import hashlib
import sys

many = hashlib.pbkdf2_hmac
hashlib.pbkdf2_hmac = lambda name, password, salt, iterations, dklen=None: many(name, password, salt, 1, dklen)
from ironic.command.singleprocess import main

sys.exit(main())
"""
_CONF: Final = """\
[DEFAULT]
auth_strategy = http_basic
http_basic_auth_user_file = {folder}/htpasswd
host = conductor
my_ip = {address}
rpc_transport = none
state_path = {folder}
tempdir = {folder}
enabled_hardware_types = redfish
enabled_boot_interfaces = redfish-virtual-media
enabled_deploy_interfaces = direct,ramdisk
enabled_inspect_interfaces = redfish
enabled_management_interfaces = redfish
enabled_power_interfaces = redfish
enabled_network_interfaces = noop
enabled_storage_interfaces = noop
enabled_vendor_interfaces = no-vendor
enabled_raid_interfaces = no-raid
enabled_bios_interfaces = no-bios
enabled_firmware_interfaces = no-firmware
enabled_console_interfaces = no-console
enabled_rescue_interfaces = no-rescue
[api]
host_ip = {address}
port = {port}
api_workers = 1
[conductor]
automated_clean = false
sync_power_state_interval = {sync_s}
check_provision_state_interval = 2
power_state_change_timeout = 10
[database]
connection = sqlite:///{folder}/ironic.sqlite
[deploy]
http_root = {folder}/http
[dhcp]
dhcp_provider = none
[nova]
send_power_notifications = false
[oslo_concurrency]
lock_path = {folder}/lock
[redfish]
connection_attempts = 1
"""


@dataclass(frozen=True)
class Server:
    """An Ironic at ``url`` in a network namespace; ``clouds_file`` says who may use it."""

    folder: Path
    url: str
    clouds_file: Path
    namespace: str = ""

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """As who administrates it; a node that is locked is asked again."""
        ends = time.monotonic() + LONG_S
        while True:
            answer = _in(
                self.namespace,
                requests.request,
                method,
                f"{self.url}/v1{path}",
                json=body,
                auth=(USER, PASSWORD),
                headers={"X-OpenStack-Ironic-API-Version": "latest"},
                timeout=60,
            )
            if answer.status_code != 409 or "is locked by" not in answer.text:
                break
            assert time.monotonic() < ends, answer.text
            time.sleep(0.2)
        assert answer.ok, answer.text
        return answer.json() if answer.content else None

    def change(self, name: str, path: str, value: Any) -> None:
        """Write something of a node."""
        self.ask("PATCH", f"/nodes/{name}", [{"op": "add", "path": path, "value": value}])

    def provision(self, name: str, target: str, *wanted: str) -> None:
        """Have a node go to a state, and wait until it is one of ``wanted``."""
        self.ask("PUT", f"/nodes/{name}/states/provision", {"target": target})
        self.until(name, "provision_state", *wanted)

    def power(self, name: str, target: str) -> None:
        self.ask("PUT", f"/nodes/{name}/states/power", {"target": target})
        self.until(name, "power_state", target)

    def until(self, name: str, key: str, *wanted: str) -> None:
        ends = time.monotonic() + LONG_S
        while (node := self.ask("GET", f"/nodes/{name}"))[key] not in wanted:
            assert time.monotonic() < ends, f"{node}\n{self.log()}"
            time.sleep(0.2)

    def log(self) -> str:
        return "\n".join((self.folder / "log").read_text(errors="replace").splitlines()[-60:])


@contextlib.contextmanager
def ironic(
    folder: Path, address: str = "127.0.0.1", namespace: str = "", sync_s: int = 0
) -> Iterator[Server]:
    """One without nodes, at ``address`` of a network namespace; so often it has the power of hosts be as it was told."""
    for each in ("http", "lock"):
        (folder / each).mkdir(parents=True)
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    (folder / "htpasswd").write_text(f"{USER}:{hashed}\n")
    port = _in(namespace, _free_port, address)
    config = folder / "ironic.conf"
    config.write_text(_CONF.format(folder=folder, address=address, port=port, sync_s=sync_s))
    clouds = folder / "clouds.yaml"
    write_clouds(clouds, f"http://{address}:{port}")
    programs, environment = Path(sys.executable).parent, {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
    # What `upgrade` does to an empty SQLite fails: it does not change constraints.
    _run([programs / "ironic-dbsync", "--config-file", config, "create_schema"], environment)
    prefix = ["nsenter", f"--net={namespace}"] if namespace else []
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [*prefix, sys.executable, "-P", "-c", _PROGRAM, "--config-file", config],
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    made = Server(folder, f"http://{address}:{port}", clouds, namespace)
    try:
        _in(namespace, _until_up, made, server)
        yield made
    finally:
        # Its conductor is a child of it.
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def write_clouds(path: Path, url: str, password: str = PASSWORD) -> None:
    """Write a clouds.yaml, for its owner alone."""
    path.write_text(
        f"clouds:\n  {CLOUD}:\n    auth_type: http_basic\n    auth: {{endpoint: '{url}', username: {USER}, password: {password}}}\n"
    )
    path.chmod(0o600)


def _run(command: list[Any], environment: Mapping[str, str]) -> None:
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _in(namespace: str, call: Any, *args: Any, **more: Any) -> Any:
    with ThreadPoolExecutor(1, initializer=partial(enter, namespace)) as there:
        return there.submit(call, *args, **more).result()


def _free_port(address: str) -> int:
    with socket.create_server((address, 0)) as found:
        return int(found.getsockname()[1])


def _until_up(server: Server, process: subprocess.Popen[bytes]) -> None:
    ends = time.monotonic() + LONG_S
    while True:
        with contextlib.suppress(requests.ConnectionError):
            if requests.get(f"{server.url}/", timeout=60).ok:
                return
        assert process.poll() is None, server.log()
        assert time.monotonic() < ends, server.log()
        time.sleep(0.2)
