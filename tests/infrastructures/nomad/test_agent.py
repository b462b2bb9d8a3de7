"""The jobs of a cluster, planned by a real Nomad; and a host that becomes a machine there."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests import versions
from tests.infrastructures.nomad.graph import JOB, registered
from tests.infrastructures.nomad.specs import desired, spec
from tests.toolchain import built_tools, needs_nomad
from tidepool.cluster.boot import Service
from tidepool.cluster.failures import InfrastructureError
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import read_spec
from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.nomad.api import Api
from tidepool.infrastructures.nomad.assignment import find, leave, take
from tidepool.infrastructures.nomad.jobs import Home, munge_job
from tidepool.infrastructures.nomad.jobspec import written
from tidepool.infrastructures.nomad.machine import Machine
from tidepool.infrastructures.nomad.options import SiteOptions
from tidepool.infrastructures.nomad.preflight import rights_missing
from tidepool.toolchain import NOMAD

pytestmark = [pytest.mark.slow, needs_nomad, pytest.mark.runs("nomad", versions.built(NOMAD))]
UP_S = 120.0
ROOT = Path(__file__).parents[3]


def free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        port: int = opened.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """An agent that is server and client, named alpha, of rack r1, on loopback alone."""
    folder: Path = tmp_path_factory.mktemp("nomad")
    http, rpc, serf = (free_port() for _ in range(3))
    (folder / "agent.hcl").write_text(
        f'name = "alpha"\nbind_addr = "127.0.0.1"\ndata_dir = "{folder}/data"\ndisable_update_check = true\n'
        f"ports {{ http = {http} rpc = {rpc} serf = {serf} }}\n"
        'client { meta { rack = "r1" } options = { "fingerprint.denylist" = '
        '"env_aws,env_gce,env_azure,env_digitalocean" } }\n'
    )
    with (folder / "log").open("w") as log:
        agent = subprocess.Popen(
            [built_tools(NOMAD).path("nomad"), "agent", "-dev", f"-config={folder}/agent.hcl"],
            stdout=log,
            stderr=log,
            env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        )
    try:
        made = Api(f"http://127.0.0.1:{http}", answer_s=10)
        wait_ready(made, folder / "log")
        yield made
    finally:
        agent.terminate()
        agent.wait(30)


def wait_ready(api: Api, log: Path) -> None:
    ends = time.monotonic() + UP_S
    while time.monotonic() < ends:
        try:
            if any(host.is_up and "raw_exec" in host.drivers for host in api.hosts()):
                return
        except InfrastructureError:
            pass  # it is not up yet
        time.sleep(0.5)
    pytest.fail(f"the agent is not ready within {UP_S:g} s: {log.read_text()[-2000:]}")


BESIDE = {"name": "exporter", "image": "exporter:1", "host": "alpha", "port": 9341}
BACKED = {"hosts": {"ctl": "alpha", "ctlbackup": "gamma", "login-1": "beta"}, "controller": {"backup": True}}
ROLLED = {"roll_out": {"max_parallel": 2, "canary_percent": 10}}


@pytest.mark.parametrize(
    ("asked", "jobs"),
    [
        (spec({"attributes": {"rack": "r1"}}, containers=[BESIDE]), 6),
        (spec(ROLLED, **BACKED), 5),
        (read_spec(yaml.safe_load((ROOT / "Pulumi.nomad.yaml").read_text())["config"]["cluster:spec"]), 5),
    ],
    ids=["beside", "backed", "project"],
)
def test_all_specifications_are_right_and_planned(
    api: Api, asked: ClusterSpec, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidepool.infrastructures.nomad.graph.read_token", lambda *_: "")
    graph = registered(asked)
    names = sorted(graph.of_type(JOB))
    assert len(names) == jobs
    for name in names:
        job = json.loads(graph[f"{JOB} {name}"].inputs["jobspec"])
        checked = api.call("POST", "validate/job", job)
        assert not checked["Error"], (name, checked)
        planned = api.call("POST", f"job/{job['Job']['ID']}/plan", {**job, "Diff": True})
        assert planned["Diff"]["Type"] == "Added", name


def test_slurmctld_has_its_place_and_a_fleet_has_none_without_metadata(api: Api) -> None:
    graph = registered(spec())
    ctl, fleet = (
        json.loads(graph[f"{JOB} {name}"].inputs["jobspec"]) for name in ("slurm-ctl", "slurmd-cpu")
    )
    assert not api.call("POST", "job/dev-slurm-ctl/plan", ctl)["FailedTGAllocs"]
    failed = api.call("POST", "job/dev-slurmd-cpu/plan", fleet)["FailedTGAllocs"]
    assert "${meta.tidepool_stack} = dev" in str(failed["slurmd"]["ConstraintFiltered"])


def test_a_token_with_all_rights_misses_none_and_nothing_is_changed_by_asking(api: Api) -> None:
    assert rights_missing(api, "default") == ()
    assert "namespace apply physics" in rights_missing(api, "physics")[0]
    assert api.call("GET", "vars") == []
    assert api.call("GET", "jobs") == []


def test_a_host_becomes_a_machine_once_and_is_given_back(api: Api) -> None:
    key = MachineKey("dev", "cpu-1")
    wanted = desired(key, "10.77.10.1")
    # Long before the servers know it.
    assert [take(api, wanted).name for _ in range(2)] == ["alpha", "alpha"]
    ends = time.monotonic() + UP_S

    def wait() -> bool:
        time.sleep(0.2)
        return time.monotonic() < ends

    while not find(api, "dev", "cpu-1"):
        assert wait()
    leave(api, key, lambda _: (), "default", wait)
    assert find(api, "dev") == ()
    (host,) = api.hosts()
    assert not [name for name in host.meta if name.startswith("tidepool")]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes machines of a host")
def test_a_daemon_that_failed_is_started_again_and_one_that_ended_on_purpose_when_it_is_asked_for(
    api: Api, tmp_path: Path
) -> None:
    log, how = tmp_path / "log", tmp_path / "how"
    log.touch()
    os.mkfifo(how)
    does = f"echo started >>{log}; read how <{how}; exit $how"
    daemon = Service("one", ("/bin/sh", "-c", does), restart="on-failure")
    place = SiteOptions(interface="lo", hosts={"ctl": "alpha"}, volumes={"home": "/home"})
    job = munge_job(Home("dev", place, 16), Machine((daemon,)))

    def starts() -> int:
        return log.read_text().count("started")

    def status() -> tuple[str, str]:
        (each,) = api.call("GET", f"job/{job.id}/allocations")
        return each["ID"], each["ClientStatus"]

    api.call("POST", "jobs", json.loads(written(job)))
    try:
        until(lambda: starts() == 1)
        how.write_text("3\n")
        until(lambda: starts() == 2)
        how.write_text("0\n")
        time.sleep(4)
        allocation, state = status()
        assert (starts(), state) == (2, "running")
        inside = ["nsenter", f"--mount=/run/tidepool/{allocation}/mnt", "--"]
        subprocess.run([*inside, "touch", "/run/tidepool/start/one"], check=True)
        until(lambda: starts() == 3)
    finally:
        allocation, _ = status()
        api.call("DELETE", f"job/{job.id}")
        until(lambda: status()[1] == "complete")
        api.call("DELETE", f"job/{job.id}", purge="true")
        # Else its folders of secrets stay mounted when the agent is gone.
        api.call("PUT", "system/gc")
        until(lambda: allocation not in Path("/proc/mounts").read_text())
    assert not Path("/run/tidepool", allocation).exists()


def until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + UP_S
    while not holds():
        assert time.monotonic() < ends, "it did not come to pass"
        time.sleep(0.2)
