"""Pools of existing hosts: what a spec may say of them, what their plays are told, and what units they have. Pure."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.components.stack import answers
from tests.infrastructures.ssh.specs import HOSTS, mapping
from tidepool.cluster.boot import Boot, File, Folder, Service
from tidepool.cluster.roles import MUNGE_KEY
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import SpecError
from tidepool.components import ConvergedNodePool, KubernetesAccess, SlurmController
from tidepool.images.locked import InstalledPackage
from tidepool.images.store import Image
from tidepool.infrastructures.ssh.boot import host_boot, of_image
from tidepool.infrastructures.ssh.preflight import demands
from tidepool.infrastructures.ssh.reading import read_options
from tidepool.testing import Graph, register

PLAYBOOK = "tidepool:ssh:Playbook"
BOOT = Boot[str](
    services=(
        Service("munged", ("/usr/sbin/munged", "--foreground"), user="munge", role="slurm"),
        Service("slurmd", ("/usr/sbin/slurmd", "-D", "$x"), ready="tcp:6818", role="slurm"),
        Service("node-access", ("true",)),
        Service("kubelet", ("/usr/bin/kubelet",), role="kubernetes"),
    ),
    files=(File("/etc/site", "a"), File("/etc/ssh/authorized_keys.d/root", "k")),
    folders=(Folder("/run/munge", owner="munge", role="slurm"), Folder("/run/sshd")),
)


def described(hosts: list[str] | None = None, **controller: Any) -> ClusterSpec:
    """A cluster with a pool of two hosts, its controller on another one."""
    pool = {
        "name": "shared",
        "subnet": "10.77.20.0/24",
        "machines": 2,
        "shape": {"cpus": 2, "memory": "2GiB"},
        "infrastructure": {"name": "ssh", "options": {"hosts": hosts or ["gamma", "delta"]}},
    }
    given = mapping(
        hosts={**HOSTS, "gamma": "192.0.2.13", "delta": "192.0.2.14"}, controller=controller or None
    )
    return ClusterSpec.model_validate({**given, "pools": [pool], "kubernetes": {"kubeconfig": "/kubeconfig"}})


def registered(spec: ClusterSpec) -> Graph:
    def program() -> None:
        controller = SlurmController(spec.name, spec, folder=Path("/project"))
        access = KubernetesAccess(spec.name, locations=controller.locations, kubeconfig=Path("/kubeconfig"))
        ConvergedNodePool("shared", controller=controller, kubernetes=access)

    return register(program, answers)


def test_a_pool_is_of_the_hosts_that_it_names() -> None:
    options = read_options(described())
    assert options.fleets["shared"] == ("gamma", "delta")
    asked = [
        (each.host, each.path, each.is_converged) for each in demands(described(), options, "dev").hosts[-2:]
    ]
    path = "pools[0].infrastructure.options.hosts"
    assert asked == [("gamma", path, True), ("delta", path, True)]


@pytest.mark.parametrize(
    ("spec", "path", "words"),
    [
        (described(["gamma"]), "pools[0].infrastructure.options.hosts", "name more, or lower machines"),
        (described(["alpha", "gamma"]), "pools[0].infrastructure.options.hosts", "a host is one node"),
        (described(runs_on="shared-1"), "controller.runs_on", "leave it out, and `ctl` is in charge"),
    ],
)
def test_what_a_pool_cannot_be_is_told_with_its_key_and_the_remedy(
    spec: ClusterSpec, path: str, words: str
) -> None:
    with pytest.raises(SpecError) as raised:
        read_options(spec)
    assert [(each.path, words in each.message) for each in raised.value.mistakes] == [(path, True)]


def test_a_play_of_a_pools_host_brings_both_roles_and_no_credential_of_one() -> None:
    graph = registered(described())
    inputs = graph[f"{PLAYBOOK} shared-2"].inputs
    assert inputs["roles"] == [
        *("users", "at_rest", "slurm_node", "kubernetes_node", "nfs_client", "mpi", "services"),
        "converged_node",
    ]
    variables = inputs["variables"]
    assert variables["tidepool_daemons"] == ["munge", "slurmd", "containerd"]
    assert variables["tidepool_hosts"]["shared-2"] == "10.77.20.2"
    assert inputs["image"]
    assert graph[f"{PLAYBOOK} ctl"].inputs.get("image") is None
    role = graph["tidepool:pool:Role shared-2"]
    assert (inputs["connection"]["address"], inputs["connection"]["stack"]) == ("192.0.2.14", "dev")
    # Taken when the host was made one, and lost before it is given back.
    assert f"{PLAYBOOK} shared-2" in role.by_input["machine"]
    assert MUNGE_KEY not in str(graph["tidepool:local:Boot shared-hosts"].inputs)
    assert MUNGE_KEY in str(graph["tidepool:local:Boot shared-slurm"].inputs)


def test_services_of_a_role_are_units_of_its_target_and_none_of_those_that_always_run() -> None:
    told = host_boot(BOOT, "shared-1")
    assert told.variables["tidepool_services"] == []
    assert told.variables["tidepool_role_targets"] == ["tidepool-slurm.target", "tidepool-kubernetes.target"]
    assert [each["path"] for each in told.variables["tidepool_folders"]] == ["/run/sshd"]
    files = {
        each["path"]: told.files[each["src"].rpartition("/")[2]].decode()
        for each in (*told.variables["tidepool_files"], *told.variables["tidepool_role_units"])
    }
    assert files["/etc/site"] == "a"
    assert "/etc/ssh/authorized_keys.d/root" not in files
    wants = "tidepool-prepare-slurm.service tidepool-munged.service tidepool-slurmd.service"
    assert f"Wants={wants}\n" in files["/etc/systemd/system/tidepool-slurm.target"]
    slurmd = files["/etc/systemd/system/tidepool-slurmd.service"]
    assert "ConditionPathExists=/var/lib/tidepool/roles/slurm\n" in slurmd
    assert "Slice=tidepool-slurm.slice\n" in slurmd
    assert 'ExecStart="/usr/bin/unshare" "--uts"' in slurmd
    assert "chown munge:root /run/munge" in files["/usr/local/lib/tidepool/prepare-slurm"]


def test_a_boot_without_roles_is_what_it_was() -> None:
    fleet = Boot[str](services=(Service("slurmd", ("slurmd",)),), folders=(Folder("/run/munge"),))
    told = host_boot(fleet, "cpu-1").variables
    assert [each["name"] for each in told["tidepool_services"]] == ["slurmd"]
    assert "tidepool_role_units" not in told


@pytest.mark.parametrize("user", ["root", "daemon"])
def test_a_service_knows_the_host_by_its_nodes_name_and_runs_as_its_user(user: str) -> None:
    service = Service(
        "says", ("/bin/sh", "-c", "hostname; id -un; id -gn; echo $0", "a b"), user=user, role="slurm"
    )
    told = host_boot(Boot[str](services=(service,)), "shared-1")
    (unit,) = (text for text in told.files.values() if b"ExecStart=" in text and b"--uts" in text)
    (line,) = (each for each in unit.decode().splitlines() if each.startswith("ExecStart="))
    # What systemd makes of it is what a shell does, but for dollars, of which it wants two.
    command = line.removeprefix("ExecStart=").replace("$$", "\\$")
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    if "Operation not permitted" in done.stderr:
        pytest.skip("a UTS namespace needs root: run the tests with sudo")
    assert done.stdout.splitlines() == ["shared-1", user, user, "a b"]


def test_a_host_gets_the_versions_and_the_bytes_that_the_image_has(tmp_path: Path) -> None:
    packages = (
        InstalledPackage("containerd", "1.6.20~ds1-1", "amd64"),
        InstalledPackage("containernetworking-plugins", "1.1.1", "amd64"),
        InstalledPackage("runc", "1.1.5", "amd64"),
        InstalledPackage("slurmd", "22.05", "amd64"),
    )
    image = Image("0" * 64, tmp_path, "debian-12-converged", "bookworm", "amd64", 0, 0, 0, packages)
    assert of_image(image, ["munge", "slurmd"]) == {
        "tidepool_daemon_packages": [
            *("munge", "slurmd"),
            *("containerd=1.6.20~ds1-1", "containernetworking-plugins=1.1.1", "runc=1.1.5"),
        ],
        "tidepool_kubelet": f"{tmp_path}/root/usr/bin/kubelet",
        "tidepool_containers": f"{tmp_path}/root/usr/share/tidepool/containers",
    }
