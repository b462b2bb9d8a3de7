"""Two departments whose firewalls let something through, on a host of the test's own with a world outside: packets, both ways."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import versions
from tests.infrastructures.local.outside import FAR, HOST, LICENCES, OTHER, Outside, devices, ruleset, world
from tests.whole.cluster import Cluster, until
from tests.whole.conftest import a_cluster
from tidepool.clients.slurm import JobState

pytestmark = [pytest.mark.slow, pytest.mark.runs("local", versions.slurm())]

LICENCE, PROXY = 27000, 3128
#: Says a line to an address and a port, and what is answered.
ASK = 'exec 3<>/dev/tcp/$0/$1 && echo hello >&3 && read -t 5 line <&3 && echo "$line"'
CHEMISTRY = {
    "network": "10.79.0.0/16",
    "fleets": [
        {
            "name": "chem",
            "subnet": "10.79.1.0/24",
            "min_nodes": 1,
            "max_nodes": 2,
            "shape": {"cpus": 1, "memory": "256MiB"},
        }
    ],
    # All that can be allowed.
    "firewall": {
        "logins": {
            "port": 2322,
            "ingress": [{"from": ["0.0.0.0/0"]}],
            "egress": [{"to": ["0.0.0.0/0"]}],
        },
        "nodes": {"egress": [{"to": ["0.0.0.0/0"]}]},
    },
}
PHYSICS = {
    "firewall": {
        "logins": {"ingress": [{"from": [LICENCES], "description": "the institute"}]},
        "nodes": {
            "egress": [{"to": [LICENCES], "ports": [f"{LICENCE}-{LICENCE + 10}"], "description": "licences"}]
        },
    }
}


@pytest.fixture(scope="module")
def departments(
    images: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cluster, Cluster, Outside]]:
    with world() as outside:
        for port in (LICENCE, PROXY):
            outside.serve(port)
        before = ruleset(), devices()
        with (
            a_cluster(tmp_path_factory.mktemp("physics"), images, **PHYSICS) as physics,
            a_cluster(tmp_path_factory.mktemp("chemistry"), images, **CHEMISTRY) as chemistry,
        ):
            yield physics, chemistry, outside
        assert (ruleset(), devices()) == before, (
            "nothing is left of them, and others' tables are as they were"
        )


def reach(cluster: Cluster, machine: str, address: str, port: int) -> str:
    """What is answered there; nothing where nothing is."""
    return cluster.on(machine, "timeout", "6", "bash", "-c", ASK, address, str(port)).stdout.strip()


def test_a_job_reaches_the_licence_server_and_nothing_else(
    departments: tuple[Cluster, Cluster, Outside],
) -> None:
    physics, _, _ = departments
    asks = f"bash -c '{ASK}' {LICENCES} {LICENCE}; bash -c '{ASK}' {OTHER} {LICENCE}; echo $?"
    job = physics.submit(asks, memory_mib=50)
    physics.until_job(job, JobState.COMPLETED)
    said = physics.on("login-1", "cat", f"/home/researcher/slurm-{job}.out").stdout
    assert f"outside to {HOST}: hello" in said
    assert said.endswith("1\n")
    assert "No route to host" in said, "it is told at once, and does not wait"
    for address, port in ((LICENCES, PROXY), (FAR, LICENCE), (HOST, LICENCE)):
        assert not reach(physics, "cpu-1", address, port)
    # The rule is of nodes.
    for machine in ("login-1", "ctl"):
        assert not reach(physics, machine, LICENCES, LICENCE)


def test_login_machines_are_reached_by_whom_the_spec_names(
    departments: tuple[Cluster, Cluster, Outside],
) -> None:
    _, _, outside = departments
    assert outside.ask(2222, source=LICENCES).startswith("SSH-2.0")
    assert outside.ask(2222, source=OTHER).startswith("refused")
    assert outside.ask(2322, source=OTHER).startswith("SSH-2.0")


def test_nobody_reaches_the_other_departments_anything(
    departments: tuple[Cluster, Cluster, Outside],
) -> None:
    physics, chemistry, outside = departments
    assert reach(chemistry, "chem-1", FAR, LICENCE) == f"outside to {HOST}: hello"
    theirs = [
        *(("10.78.0.2", port) for port in (22, 6817)),
        *(("10.78.1.1", port) for port in (22, 6818)),
        ("10.78.0.16", 22),
        (HOST, 2222),
        *((address, port) for address in _links() for port in (22, 2222, 2322)),
    ]
    ours = [("10.79.0.2", 6817), ("10.79.1.1", 22), ("10.79.0.16", 22), (HOST, 2322)]
    asked = [
        *((chemistry, machine, *place) for machine in ("chem-1", "login-1", "ctl") for place in theirs),
        *((physics, machine, *place) for machine in ("cpu-1", "login-1") for place in ours),
    ]
    # What is dropped is waited for.
    with ThreadPoolExecutor(16) as threads:
        answers = threads.map(lambda each: reach(*each), asked)
        reached = [each[1:] for each, answer in zip(asked, answers, strict=True) if answer]
    assert reached == []
    # Nor does somebody outside who sends packets for their addresses to this machine.
    for address, port in (*theirs[:5], *ours[:3]):
        assert outside.ask(port, address, LICENCES).startswith("refused"), (address, port)


def test_a_change_is_shown_and_made_while_jobs_run(departments: tuple[Cluster, Cluster, Outside]) -> None:
    physics, _, _ = departments
    before = {name: node.boot_time for name, node in physics.nodes().items()}
    talk = (
        f"exec 3<>/dev/tcp/{LICENCES}/{LICENCE}; echo one >&3; read line <&3; echo $line\n"
        "until test -e /home/researcher/changed; do sleep 0.2; done\n"
        "echo two >&3; read -t 20 line <&3; echo $line"
    )
    job = physics.submit(f"bash <<'E'\n{talk}\nE", memory_mib=50)
    physics.until_script(job)
    log = f"/home/researcher/slurm-{job}.out"
    until(lambda: physics.on("login-1", "cat", log).stdout or None, "it talks to the licence server")
    physics.spec["firewall"]["nodes"]["egress"].append({"to": [OTHER], "ports": [PROXY]})
    physics.write_spec()
    shown = physics.tidepool("preview", "--diff")
    assert f"{OTHER}/32" in shown
    assert "1 to update" in shown
    assert not reach(physics, "cpu-1", OTHER, PROXY), "a preview changes nothing"
    physics.up()
    assert reach(physics, "cpu-1", OTHER, PROXY) == f"outside to {HOST}: hello"
    physics.on("login-1", "touch", "/home/researcher/changed")
    physics.until_job(job, JobState.COMPLETED)
    assert physics.on("login-1", "cat", log).stdout.splitlines()[-1] == f"outside to {HOST}: two"
    assert {name: node.boot_time for name, node in physics.nodes().items()} == before


def test_what_somebody_flushed_is_seen_and_put_back(departments: tuple[Cluster, Cluster, Outside]) -> None:
    physics, _, outside = departments
    tables = subprocess.run(["nft", "list", "tables", "ip"], capture_output=True, text=True, check=True)
    table = next(line.split()[2] for line in tables.stdout.splitlines() if physics.stack in line)
    subprocess.run(["nft", "delete", "table", "ip", table], check=True)
    assert outside.ask(2222, source=LICENCES).startswith("refused")
    assert "firewall changed by hand" in physics.tidepool("preview", "--refresh", "--diff")
    physics.up("--refresh")
    assert outside.ask(2222, source=LICENCES).startswith("SSH-2.0")
    assert reach(physics, "cpu-1", LICENCES, LICENCE) == f"outside to {HOST}: hello"


def test_what_cannot_be_is_refused_all_at_once_and_changes_nothing(
    departments: tuple[Cluster, Cluster, Outside],
) -> None:
    physics, _, _ = departments
    before, right = ruleset(), physics.spec["firewall"]
    physics.spec["firewall"] = {
        "logins": {"ingress": [{"from": ["the-institute"]}]},
        "nodes": {"egress": [{"to": ["10.78.0.2", "127.0.0.1"], "ports": [70000]}]},
    }
    said = physics.refused("preview")
    for key in (
        "firewall.logins.ingress[0].from[0]",
        "firewall.nodes.egress[0].to[0]",
        "firewall.nodes.egress[0].to[1]",
        "firewall.nodes.egress[0].ports[0]",
    ):
        assert key in said
    # What only this machine knows: the port is another department's.
    physics.spec["firewall"] = {**right, "logins": {**right["logins"], "port": 2322}}
    assert "firewall.logins.port" in physics.refused("up", "--yes")
    assert ruleset() == before
    physics.spec["firewall"] = right
    physics.write_spec()


def _links() -> list[str]:
    """Addresses of all uplinks at their switches."""
    told = subprocess.run(["nft", "-s", "list", "ruleset"], capture_output=True, text=True, check=True).stdout
    return sorted({line.split()[-2] for line in told.splitlines() if "ip saddr != 169.254." in line})
