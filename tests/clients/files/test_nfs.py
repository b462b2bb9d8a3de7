"""The cluster's own file server: real nfs-ganesha by the configuration that we write, and real clients, kernels of their own."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest

from tests.clients.files.test_quotas import AGENT, EXT4, disk
from tests.uml import run_in_kernel
from tidepool.cluster.ganesha import Export, ganesha_conf

pytestmark = pytest.mark.slow

SERVER = IPv4Address("10.99.0.5")
OWN, NETWORK = IPv4Network("10.99.0.0/26"), IPv4Network("10.99.0.0/16")
EXPORTS = (Export("home", OWN, NETWORK), Export("slurmctld", OWN))
MOUNT = "vers=4.2,sec=sys,hard,proto=tcp,retry=0"
UP_S = 60

_CLIENT = """
modules("nfsv4")
# By its name a server knows one client from another.
with open("/proc/sys/kernel/hostname", "w") as file:
    file.write("{name}")
must("ip", "link", "set", "lo", "up")
must("ip", "address", "add", "{address}", "dev", "vec0")
must("ip", "link", "set", "vec0", "up")
os.mkdir("/mnt/h")

def mount(name):
    return run("mount", "-t", "nfs4", "-o", "{mount}", f"{server}:/{{name}}", "/mnt/h")
"""
_SERVE = """\
mount -t tmpfs none /run
mkdir /run/ganesha
exec ganesha.nfsd -F -N NIV_EVENT -L "$1/log" -f "$1/ganesha.conf" -p /run/ganesha.pid
"""


@dataclass
class Server:
    """ganesha in a network namespace of its own, to which kernels have cables."""

    folder: Path
    namespace: str = field(default_factory=lambda: f"nfs-{uuid.uuid4().hex[:8]}")
    process: subprocess.Popen[bytes] | None = None
    cables: int = 0

    @property
    def store(self) -> Path:
        return self.folder / "srv"

    @property
    def prefix(self) -> Sequence[str]:
        return ("ip", "netns", "exec", self.namespace)

    def lay_out(self) -> None:
        for export in EXPORTS:
            (self.store / export.name).mkdir(parents=True)
        (self.folder / "ganesha.conf").write_text(ganesha_conf(SERVER, EXPORTS, str(self.store)))
        self._ip("netns", "add", self.namespace)
        inside = ("-n", self.namespace)
        self._ip(*inside, "link", "set", "lo", "up")
        self._ip(*inside, "link", "add", "switch", "type", "bridge")
        self._ip(*inside, "address", "add", f"{SERVER}/16", "dev", "switch")
        # Somebody beside the cluster's network, whom nothing but the exports keeps out.
        self._ip(*inside, "address", "add", "192.168.99.5/24", "dev", "switch")
        self._ip(*inside, "link", "set", "switch", "up")

    def start(self) -> None:
        """Start it, and wait until it serves."""
        log = self.folder / "log"
        log.write_text("")
        argv = [*self.prefix, "unshare", "--mount", "sh", "-ec", _SERVE, "sh", str(self.folder)]
        self.process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + UP_S
        while "NFS SERVER INITIALIZED" not in log.read_text():
            assert self.process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def client(self, address: str, program: str) -> Any:
        """A kernel at ``address`` runs a program; gives all that it said, as one mapping."""
        self.cables += 1
        name = f"tap{self.cables}"
        self._ip("-n", self.namespace, "tuntap", "add", name, "mode", "tap")
        self._ip("-n", self.namespace, "link", "set", name, "master", "switch", "up")
        folder = self.folder / name
        folder.mkdir()
        script = _CLIENT.format(name=name, address=address, mount=MOUNT, server=SERVER) + program
        options = [f"vec0:transport=tap,ifname={name},depth=64"]
        said = run_in_kernel(folder, script, options=options, prefix=self.prefix)
        return {key: value for each in said for key, value in each.items()}

    def end(self) -> None:
        if self.process is not None:
            self.kill()
        subprocess.run(["ip", "netns", "delete", self.namespace], check=False)

    def _ip(self, *words: str) -> None:
        subprocess.run(["ip", *words], check=True)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    lacks = [tool for tool in ("ganesha.nfsd", "linux.uml", "mount.nfs") if shutil.which(tool) is None]
    if lacks or os.geteuid():
        pytest.skip(f"there is no {', '.join(lacks) or 'root'}")
    made = Server(tmp_path)
    try:
        made.lay_out()
        made.start()
        yield made
    finally:
        made.end()


def test_who_is_of_the_cluster_may_mount_and_root_is_root_on_its_own_machines_alone(server: Server) -> None:
    home = server.store / "home" / "ada"
    home.mkdir(0o700)
    os.chown(home, 2001, 2001)
    (home / "secret").write_text("hers")
    (home / "secret").chmod(0o600)
    os.chown(home / "secret", 2001, 2001)
    look = """
say(mounted=mount("home"), root=run("cat", "/mnt/h/ada/secret"))
say(ada=run("sh", "-c", "cat /mnt/h/ada/secret && echo new >/mnt/h/ada/file", uid=2001))
say(bob=run("cat", "/mnt/h/ada/secret", uid=2002)[0], made=run("mkdir", "/mnt/h/by-root")[0])
run("umount", "/mnt/h")
say(state=mount("slurmctld"))
"""
    login = server.client("10.99.0.16/16", look)
    assert (login["mounted"][0], login["root"][1], login["ada"][1], login["made"]) == (0, "hers", "hers", 0)
    assert login["bob"] != 0
    assert login["state"][0] == 0
    assert ((home / "file").stat().st_uid, (home / "file").read_text()) == (2001, "new\n")
    node = server.client("10.99.1.1/16", look)
    assert (node["mounted"][0], node["ada"][1]) == (0, "hers")
    assert "Permission denied" in node["root"][2], "root of a node is nobody"
    assert node["made"] != 0
    assert node["state"][0] != 0, "its state is the controllers' alone"
    outside = server.client(
        "192.168.99.77/24", f'must("ip", "route", "add", "{SERVER}", "dev", "vec0")\n' + look
    )
    assert outside["mounted"][0] != 0


def test_a_server_that_is_killed_loses_no_write_and_no_lock(server: Server) -> None:
    (server.store / "home").chmod(0o777)
    content = os.urandom(1 << 20) * 96
    (server.folder / "content").write_bytes(content)
    marks = {name: server.folder / name for name in ("locked", "writes", "restarted", "tried")}
    holds = f"""
must("true", str(mount("home")))
lock = open("/mnt/h/lock", "w")
fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
open("{marks["locked"]}", "w").close()
with open("{server.folder}/content", "rb") as source, open("/mnt/h/content", "wb") as target:
    while part := source.read(1 << 20):
        target.write(part)
        os.fdatasync(target.fileno())
        if source.tell() == 16 << 20:
            open("{marks["writes"]}", "w").close()
wait_for("{marks["tried"]}")
fcntl.lockf(lock, fcntl.LOCK_UN)
say(done=True)
"""
    tries = f"""
must("true", str(mount("home")))
wait_for("{marks["restarted"]}")
lock = open("/mnt/h/lock", "w")
try:
    fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    say(first="got it")
except OSError as error:
    say(first=errno.errorcode[error.errno])
open("{marks["tried"]}", "w").close()
fcntl.lockf(lock, fcntl.LOCK_EX)
say(then="got it")
"""
    with ThreadPoolExecutor(2) as pool:
        holder = pool.submit(server.client, "10.99.1.1/16", holds)
        while not marks["writes"].exists():
            assert not holder.done(), holder.result()
            time.sleep(0.02)
        server.kill()
        other = pool.submit(server.client, "10.99.1.2/16", tries)
        server.start()
        marks["restarted"].touch()
        assert holder.result() == {"done": True}
        assert other.result() == {"first": "EAGAIN", "then": "got it"}
    written = hashlib.sha256((server.store / "home" / "content").read_bytes())
    assert written.hexdigest() == hashlib.sha256(content).hexdigest()


def test_a_quota_holds_for_clients_who_cannot_take_their_files_out_of_it(tmp_path: Path) -> None:
    """Server and client in one kernel, which has quotas and a client."""
    conf = ganesha_conf(SERVER, [Export("home", OWN)], store="/mnt/srv")
    (tmp_path / "ganesha.conf").write_text(conf)
    said = run_in_kernel(
        tmp_path,
        f"""
modules("quota_v2", "nfsv4")
must("ip", "link", "set", "lo", "up")
must("ip", "address", "add", "{SERVER}/16", "dev", "lo")
for path in ("srv", "h"):
    os.mkdir(f"/mnt/{{path}}")
must("mount", "-o", "prjquota", "/dev/ubda", "/mnt/srv")
os.makedirs("/mnt/srv/home/ada")
os.chown("/mnt/srv/home/ada", 2001, 2001)
request = dict(verb="set", folder="/mnt/srv/home", scope="dev", default=2 << 20, quotas={{}})
must("/usr/bin/python3", "-IS", "{AGENT}", stdin=json.dumps(request))
os.mkdir("/run/ganesha")
served = subprocess.Popen(["ganesha.nfsd", "-F", "-N", "NIV_EVENT", "-L", "/run/log", "-f", "{tmp_path}/ganesha.conf", "-p", "/run/pid"])
wait_for("/run/log")
while "NFS SERVER INITIALIZED" not in open("/run/log").read():
    assert served.poll() is None, open("/run/log").read()
    time.sleep(0.1)
must("mount", "-t", "nfs4", "-o", "{MOUNT}", "{SERVER}:/home", "/mnt/h")
write = run("dd", "if=/dev/zero", "of=/mnt/h/ada/f", "bs=64k", "count=64", "conv=fsync", uid=2001)
say(write=write, out=run("chattr", "-p", "0", "/mnt/h/ada/f", uid=2001), size=512 * os.stat("/mnt/srv/home/ada/f").st_blocks)
# More for her, and she goes on.
must("/usr/bin/python3", "-IS", "{AGENT}", stdin=json.dumps(request | dict(quotas=dict(ada=20 << 20))))
say(again=run("dd", "if=/dev/zero", "of=/mnt/h/ada/f", "bs=64k", "count=64", "conv=fsync", uid=2001))
""",
        [disk(tmp_path, *EXT4)],
    )
    told: dict[str, Any] = {key: value for each in said for key, value in each.items()}
    assert "Disk quota exceeded" in told["write"][2], told
    assert told["out"][0] != 0, "a client has no way to say of which project a file is"
    assert told["size"] <= 2 << 20
    assert told["again"][0] == 0, told
