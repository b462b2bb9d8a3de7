"""A cluster of real Nomad agents: hosts with a server among them, ACLs and TLS, in a network of their own.

A host is a machine of this machine, of the golden image: it has Slurm's programs, and an agent that may run what it is told to
as root. `tests.infrastructures.nomad.test_agent` has one agent, for what needs no hosts.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pytest

from tests.golden import golden_image
from tests.infrastructures.local.stacks import Stack, left_of
from tests.toolchain import built_tools
from tidepool.cluster.boot import File, Folder, Mount, Service
from tidepool.infrastructures.local import kernel
from tidepool.infrastructures.local.kernel import MachineSpec, NetworkSpec
from tidepool.provider.certificates import Subject, authority, signed
from tidepool.toolchain import NOMAD

#: It has no client: nothing runs there but the agent.
SERVER: Final = "server"
SHARED: Final = "/shared"
_STACK: Final = "hosts"
#: Hosts are of no cluster yet: theirs is an image with all of a system, as `mount`.
_IMAGE: Final = "debian-12-cloud"
_TLS: Final = "/etc/nomad.d"
_DAYS: Final = 2
_UP_S: Final = 120.0
#: What an administrator of a host may do, and agents do: mounts, namespaces, addresses, a look into processes.
_CAPABILITIES: Final = ("sys_admin", "sys_ptrace", "mknod")


@dataclass(frozen=True)
class Agents:
    """The hosts by their names with their addresses, and Nomad on them. ``folder`` has its CA, and tokens.

    ``prefix`` is put before a command that is to run in their network.
    """

    folder: Path
    addresses: Mapping[str, str]
    prefix: Sequence[str]
    _specs: dict[str, MachineSpec] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The address of the API."""
        return f"https://{self.addresses[SERVER]}:4646"

    @property
    def ca_file(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def token_file(self) -> Path:
        """The token with the policy, as a person keeps it."""
        return self.folder / "nomad.token"

    @property
    def shared(self) -> Path:
        """The folder that all hosts have at /shared."""
        return self.folder / "shared"

    @cached_property
    def stack(self) -> Stack:
        return Stack(self.folder / "data", _STACK, golden_image(_IMAGE).root)

    def nomad(self, *arguments: str, token: str = "bootstrap") -> str:
        """Run the command `nomad` with a token of the folder; return what it says."""
        done = self.try_nomad(*arguments, token=token)
        assert done.returncode == 0, f"nomad {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def asked(self, path: str, **query: str) -> Any:
        """Return what the API answers to ``GET path``."""
        asked = f"/v1/{path}?{urlencode(query)}"
        return json.loads(self.nomad("operator", "api", asked))

    def try_nomad(self, *arguments: str, token: str = "") -> subprocess.CompletedProcess[str]:
        """Run the command `nomad`, whatever comes of it."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "NOMAD_ADDR": self.address}
        environment["NOMAD_CACERT"] = str(self.ca_file)
        if token:
            environment["NOMAD_TOKEN"] = (self.folder / f"{token}.token").read_text()
        command = [*self.prefix, str(built_tools(NOMAD).path("nomad")), *arguments]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    def nodes(self) -> Mapping[str, Mapping[str, Any]]:
        """All clients, by their names, with their metadata."""
        return self._clients()

    def _clients(self, **told: str) -> Mapping[str, Mapping[str, Any]]:
        found = [self.asked(f"node/{each['ID']}") for each in self.asked("nodes", **told)]
        return {each["Name"]: each for each in found}

    def machines(self) -> Mapping[str, str]:
        """Return which host is which node, by the hosts' metadata."""
        found = self._clients(filter='"tidepool_node" in Meta')
        # One that was given back between the list and the look at it is none any more.
        return {
            name: each["Meta"]["tidepool_node"]
            for name, each in found.items()
            if "tidepool_node" in each["Meta"]
        }

    def jobs(self, namespace: str) -> Sequence[str]:
        """Return the ids of all jobs there, dead ones too."""
        return sorted(each["ID"] for each in self.asked("jobs", namespace=namespace))

    def running(self, namespace: str, job: str) -> Sequence[Mapping[str, Any]]:
        """Return the allocations of a job that run."""
        found = self.asked(f"job/{job}/allocations", namespace=namespace)
        return [each for each in found if each["ClientStatus"] == "running"]

    def ready(self) -> set[str]:
        """Return the names of the clients that take jobs."""
        return {each["Name"] for each in self.asked("nodes") if each["Status"] == "ready"}

    def run(self, host: str, *argv: str) -> str:
        """What a command of root's on a host says."""
        ended = self.stack.run(*argv, on=host, timeout_s=60)
        assert ended.code == 0, ended
        return ended.stdout

    def pull_plug(self, host: str) -> None:
        """Kill all that runs there, at once."""
        kernel.stop_machine(self.stack.data, _STACK, host, timeout_s=0)

    def start(self, host: str) -> None:
        """Have it run; one that ran before has what it had on its disk."""
        kernel.create_machine(self.stack.data, self._specs[host])

    def keep_token(self, name: str, secret: str) -> Path:
        """Write a token as a person keeps it: for nobody else to read."""
        path = self.folder / f"{name}.token"
        path.touch(mode=0o600)
        path.write_text(secret)
        return path

    def new_token(self, name: str, rules: str) -> Path:
        """Make a token whose policy has these rules."""
        (self.folder / f"{name}.hcl").write_text(rules)
        self.nomad("acl", "policy", "apply", name, str(self.folder / f"{name}.hcl"))
        made = self.nomad("acl", "token", "create", "-type=client", f"-policy={name}", "-json")
        return self.keep_token(name, json.loads(made)["SecretID"])


@contextmanager
def agents(
    folder: Path, cidr: str, addresses: Mapping[str, str], meta: Mapping[str, Mapping[str, str]]
) -> Iterator[Agents]:
    """Agents on hosts by their names, with addresses in the network ``cidr`` and metadata; nothing is left afterwards."""
    stack = Stack(folder / "data", _STACK, golden_image(_IMAGE).root)
    network = kernel.create_network(stack.data, NetworkSpec(_STACK, "net", cidr))
    made = Agents(folder, addresses, network.prefix)
    made.shared.mkdir()
    try:
        tls = _certificates(made)
        # The server first: a client whom nobody takes waits for long before it asks again.
        for name in sorted(addresses, key=lambda name: name != SERVER):
            made._specs[name] = _host(made, name, tls, meta.get(name, {}))
            made.start(name)
            if name == SERVER:
                _bootstrap(made)
        clients = addresses.keys() - {SERVER}
        _until(made, lambda: "" if made.ready() >= clients else f"ready are {sorted(made.ready())}")
        yield made
    finally:
        for name in addresses:
            kernel.delete_machine(stack.data, _STACK, name)
        kernel.delete_network(stack.data, _STACK, "net")
        assert left_of(stack) == []


def _certificates(made: Agents) -> Sequence[File[str]]:
    """An authority, and one certificate for all agents, as files of each host."""
    now = datetime.now(UTC)
    ca = authority("nomad-agent-ca", _DAYS, now)
    names = ("localhost", "server.global.nomad", "client.global.nomad")
    subject = Subject("nomad", (), names, tuple(made.addresses.values()), ("server", "client"))
    own = signed(subject, ca, _DAYS, now)
    made.ca_file.write_text(ca.certificate)
    texts = {"ca.pem": ca.certificate, "agent.pem": own.certificate, "agent-key.pem": own.key}
    return [File(f"{_TLS}/{name}", text, "0600") for name, text in texts.items()]


def _host(made: Agents, name: str, tls: Sequence[File[str]], meta: Mapping[str, str]) -> MachineSpec:
    address = made.addresses[name]
    nomad = built_tools(NOMAD).path("nomad")
    config = File(
        f"{_TLS}/agent.json", json.dumps(_config(name, address, made.addresses[SERVER], meta)), "0600"
    )
    return MachineSpec(
        stack=_STACK,
        name=name,
        network="net",
        address=address,
        mac="02:00:" + ":".join(f"{int(part):02x}" for part in address.split(".")),
        image=str(made.stack.image),
        cpus=2,
        memory_mib=2048,
        services=(
            Service("nomad", ("/opt/nomad/nomad", "agent", f"-config={_TLS}/agent.json"), ready="tcp:4646"),
        ),
        files=(*tls, config),
        folders=(Folder("/run/sshd"),),
        mounts=(Mount(str(nomad.parent), "/opt/nomad"), Mount(str(made.shared), SHARED, read_only=False)),
        capabilities=_CAPABILITIES,
    )


def _config(name: str, address: str, server: str, meta: Mapping[str, str]) -> Mapping[str, Any]:
    config: dict[str, Any] = {
        "name": name,
        "bind_addr": address,
        "data_dir": "/var/lib/nomad",
        "disable_update_check": True,
        "acl": {"enabled": True},
        "tls": {
            "http": True,
            "rpc": True,
            "ca_file": f"{_TLS}/ca.pem",
            "cert_file": f"{_TLS}/agent.pem",
            "key_file": f"{_TLS}/agent-key.pem",
            "verify_server_hostname": True,
            "verify_https_client": False,
        },
    }
    if name == SERVER:
        # A host that dies is told of after some ten seconds, and a busy one is not taken for dead.
        return config | {
            "server": {
                "enabled": True,
                "bootstrap_expect": 1,
                "min_heartbeat_ttl": "4s",
                "heartbeat_grace": "8s",
            }
        }
    return config | {
        "client": {
            "enabled": True,
            "servers": [f"{server}:4647"],
            "network_interface": "eth0",
            "meta": dict(meta),
            # Those ask addresses of clouds, which nobody answers here.
            "options": {"fingerprint.denylist": "env_aws,env_gce,env_azure,env_digitalocean"},
        },
        "plugin": {"raw_exec": {"config": {"enabled": True}}},
    }


def _bootstrap(made: Agents) -> None:
    """Make the first token, when there is a server that leads and has its keys."""

    def why_not() -> str:
        said = made.try_nomad("acl", "bootstrap", "-json")
        if said.returncode == 0:
            made.keep_token("bootstrap", json.loads(said.stdout)["SecretID"])
        return said.stderr

    _until(made, why_not)
    keyring = ("operator", "root", "keyring", "list")
    _until(made, lambda: "" if "active" in made.nomad(*keyring) else "it has no keys")


def _until(made: Agents, why_not: Callable[[], str]) -> None:
    ends = time.monotonic() + _UP_S
    while why := why_not():
        if time.monotonic() > ends:
            logs = [kernel.boot_log(made.stack.data, _STACK, name, 20) for name in made.addresses]
            pytest.fail(f"Nomad is not ready within {_UP_S:g} s: {why}\n{''.join(logs)}")
        time.sleep(0.5)
