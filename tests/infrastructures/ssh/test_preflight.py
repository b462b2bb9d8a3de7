"""What a host lacks to be a node, and whose it is; and of which kind a failure is, by its words."""

from __future__ import annotations

from typing import Any

import pytest

from tidepool.cluster.failures import InfrastructureError, InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures.ssh.ask import kind_of
from tidepool.infrastructures.ssh.preflight import Demand, Demands, lacks

FIT: dict[str, Any] = {
    "claim": None,
    "os": {"ID": "debian", "VERSION_ID": "12"},
    "architecture": "x86_64",
    "cpus": 8,
    "memory_mib": 16000,
    "python": [3, 11],
    "tools": ["apt-get", "unshare", "setpriv", "ip", "mount", "start-stop-daemon"],
    "daemons": [],
    "users": {},
    "numbers": {},
    "addresses": ["192.0.2.11"],
    "controllers": ["cpuset", "cpu", "io", "memory", "pids", "devices", "freezer"],
    "systemd": True,
    "taken": [],
}


def wrong(*, is_converged: bool = False, **facts: Any) -> tuple[str, ...]:
    demand = Demand("fleets[0]", "alpha", 8, 16000, is_converged=is_converged)
    users = {"slurm": (64030, 64030), "munge": (980, 980)}
    confines = ("freezer", "memory", "cpuset")
    return lacks({**FIT, **facts}, demand, Demands("physics", ("debian 12",), users, (demand,), confines))


def claimed(stack: str) -> dict[str, Any]:
    return {"key": {"stack": stack, "fleet": "cpu", "node": "cpu-1", "generation": 1}, "state": "claimed"}


def test_a_fit_host_lacks_nothing_and_one_that_is_ours_runs_what_we_told_it_to() -> None:
    assert wrong() == ()
    assert wrong(users={"slurm": [64030, 64030]}, numbers={"980": "munge"}) == ()
    assert wrong(claim=claimed("physics"), daemons=["munged", "slurmd"]) == ()


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (
            {"claim": claimed("chemistry")},
            "it is the node cpu-1 of the stack chemistry: give it back there first",
        ),
        ({"daemons": ["slurmd"]}, "slurmd runs there, so it is a node of another cluster"),
        ({"os": {"ID": "ubuntu", "VERSION_ID": "24.04"}}, "it runs ubuntu 24.04, and hosts run debian 12"),
        ({"architecture": "aarch64"}, "it is aarch64"),
        ({"python": [3, 7]}, "its Python is 3.7"),
        (
            {"tools": ["apt-get", "unshare", "setpriv", "mount"]},
            "it has no ip; run there: apt-get install iproute2",
        ),
        ({"tools": ["ip", "mount", "unshare", "setpriv"]}, "no apt-get"),
        ({"controllers": ["memory", "freezer"]}, "its control groups have no cpuset"),
        ({"cpus": 4}, "it has 4 cpus, and the shape 8"),
        ({"memory_mib": 8000}, "it has 8000 MiB of memory, and the shape 16000 MiB"),
        ({"users": {"slurm": [64030, 100]}}, "its user slurm has the numbers 64030 and 100"),
        (
            {"numbers": {"980": "systemd-oom"}},
            "its user systemd-oom has the number 980, which munge is to have",
        ),
    ],
)
def test_what_it_lacks_is_told_with_the_remedy(facts: dict[str, Any], words: str) -> None:
    (told,) = wrong(**facts)
    assert words in told


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"systemd": False}, "it was not started by systemd"),
        ({"taken": ["/var/lib/containerd"]}, "it has /var/lib/containerd, which a machine of a pool gets"),
        (
            {"claim": claimed("physics"), "taken": ["the package runc", "the network device veth0"]},
            "it has the package runc, the network device veth0",
        ),
    ],
)
def test_a_pools_host_lacks_more_and_a_fleets_has_it_for_itself(facts: dict[str, Any], words: str) -> None:
    assert wrong(**facts) == ()
    (told,) = wrong(is_converged=True, **facts)
    assert words in told
    assert "take another host" in told


def test_all_that_is_wrong_is_told_at_once() -> None:
    assert len(wrong(cpus=1, memory_mib=1, architecture="riscv64", daemons=["kubelet"])) == 4


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (InsufficientCapacity, "OSError: [Errno 28] No space left on device"),
        (
            Permanent,
            "root@alpha cannot be told to release: OSError: [Errno 30] Read-only file system: '/etc'",
        ),
        (Transient, "somebody else claims this host or gives it back at the moment"),
        (Transient, "something that nobody has seen yet"),
    ],
)
def test_words_tell_the_kind_of_a_failure(kind: type[InfrastructureError], text: str) -> None:
    assert kind_of(text) is kind
    assert kind_of(f"tidepool:ssh:Host (cpu-1): {text}") is kind
