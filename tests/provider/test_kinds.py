"""Each kind of resource by itself, as far as it goes without machines: checks, previews, keys, folders, boots."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.provider.calls import Calls, plainly
from tidepool.images import Buildable, Phase, Progress
from tidepool.infrastructures.connection import transport
from tidepool.infrastructures.local.kernel import Lack, LocalError
from tidepool.provider import image
from tidepool.provider.image import ProgressReport
from tidepool.resources.kind import Refusal
from tidepool.resources.values import UNKNOWN, has_secret, property_value

_CHECKOUT = Path(__file__).parents[2]
_IMAGE = {"recipe": str(_CHECKOUT / "images/debian-12"), "playbooks": str(_CHECKOUT / "playbooks")}
_MACHINE: dict[str, Any] = {
    "stack": "dev",
    "machine": "cpu-1",
    "network": "net",
    "address": "10.77.1.1",
    "mac": "02:00:0a:4d:01:01",
    "image": "a" * 64,
    "boot": "cpu",
    "cpus": 2.0,
    "memoryMib": 64.0,
}
_BOOT: dict[str, Any] = {
    "stack": "dev",
    "boot": "cpu",
    "services": [
        {
            "name": "slurmd",
            "argv": ["/usr/sbin/slurmd", "-D"],
            "begins": "path:/etc/slurm",
            "environment": {"B": "2", "A": "1"},
        }
    ],
    "files": {"/etc/key": {"content": "aGk=", "isBase64": True, "mode": "0400", "owner": "munge"}},
    "folders": [{"path": "/run/munge"}],
    "mounts": [{"source": "/srv/home", "target": "/home", "readOnly": False}],
    "capabilities": ["sys_admin"],
    "devices": [{"path": "/dev/gpu0"}],
}


@pytest.fixture(autouse=True)
def no_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    """No mirror is asked; tests/provider/test_image.py has one of its own."""
    monkeypatch.setattr(image, "buildable", lambda source, *_: Buildable(source))


@pytest.fixture
def machines(tmp_path: Path) -> Calls:
    return Calls(tmp_path, "tidepool:local:Machine")


@pytest.fixture
def boots(tmp_path: Path) -> Calls:
    return Calls(tmp_path, "tidepool:local:Boot")


@pytest.fixture
def volumes(tmp_path: Path) -> Calls:
    return Calls(tmp_path, "tidepool:local:Volume")


def test_a_type_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="no resources of type tidepool:local:Moon"):
        Calls(tmp_path, "tidepool:local:Moon").checked({})


# Checks


def test_all_mistakes_of_a_machine_are_told_at_once(machines: Calls) -> None:
    wrong = _MACHINE | {"machine": "CPU_1", "address": "10.77.1", "mac": "1", "aliases": ["not ok"]}
    assert set(machines.failures(wrong)) == {"machine", "address", "mac", "aliases"}
    found = machines.failures(_MACHINE | {"cpus": 0.0, "memoryMib": "much", "colour": "red"})
    assert set(found) == {"cpus", "memoryMib", "colour"}
    assert machines.failures(_MACHINE) == {}


def test_mistakes_of_a_boot_are_told_with_their_place(boots: Calls) -> None:
    wrong = _BOOT | {
        "services": [{"name": "a", "argv": "slurmd"}, {"nome": "b", "argv": []}],
        "files": {"/etc/key": {"content": 3.0}},
    }
    assert set(boots.failures(wrong)) == {
        "services[0].argv",
        "services[1].name",
        "services[1].nome",
        "files./etc/key.content",
    }
    relative = _BOOT | {"services": [{"name": "a", "argv": ["slurmd"], "ready": "soon"}]}
    (said,) = boots.failures(relative).values()
    assert "ready is 'soon'" in said
    assert boots.failures(_BOOT) == {}


def test_mistakes_of_what_slurm_is_told(tmp_path: Path) -> None:
    connection = {"kind": "local", "stack": "dev", "machine": "ctl"}
    configurations = Calls(tmp_path, "tidepool:slurm:Configuration")
    wrong = {"hosts": [{"kind": "moon"}], "files": {"../x": ""}}
    assert set(configurations.failures(wrong)) == {"hosts[0]", "files", "files.../x"}
    slots = {
        "controller": connection,
        "names": "cpu-[1-4]",
        "addresses": "10.77.1.[1-3]",
        "cpus": 1.0,
        "sockets": 1.0,
        "coresPerSocket": 1.0,
        "threadsPerCore": 1.0,
        "memoryMib": 500.0,
        "features": ["cpu"],
    }
    assert Calls(tmp_path, "tidepool:slurm:Slots").failures(slots) == {
        "addresses": "10.77.1.[1-3] are 3 for 4 names"
    }
    node = {"controller": connection, "node": "cpu-1", "machine": {"kind": "moon"}, "slots": "cpu"}
    assert set(Calls(tmp_path, "tidepool:slurm:Node").failures(node)) == {"machine"}


def test_mistakes_of_an_image_are_those_of_its_recipe(tmp_path: Path) -> None:
    images = Calls(tmp_path, "tidepool:image:Image")
    assert "absolute path" in images.failures(_IMAGE | {"recipe": "images/slurm"})["recipe"]
    assert "there is no such file" in images.failures(_IMAGE | {"recipe": str(tmp_path)})["recipe"]


def test_what_this_machine_lacks_is_told_before_anything_is_made_and_looked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []

    def preflight(data: Path) -> tuple[Lack, ...]:
        asked.append(data)
        return (
            Lack("namespaces need root", "run it with sudo"),
            Lack("the machines may use much memory", "smaller ones", fatal=False),
        )

    def read_network(*_: object) -> None:
        raise LocalError("no control groups")

    monkeypatch.setattr("tidepool.infrastructures.local.kinds.preflight", preflight)
    monkeypatch.setattr("tidepool.infrastructures.local.kinds.read_network", read_network)
    networks = Calls(tmp_path, "tidepool:local:Network")
    inputs = {"stack": "dev", "network": "net", "cidr": "10.77.0.0/16"}
    for _ in range(2):
        assert networks.failures(inputs) == {"": "namespaces need root: run it with sudo"}
    assert asked == [tmp_path]
    assert set(networks.failures(inputs | {"network": "NET", "cidr": "10.77.0.0/33"})) == {"network", "cidr"}
    assert list(tmp_path.iterdir()) == []


# Previews


def test_the_digest_of_an_image_is_known_in_previews(tmp_path: Path) -> None:
    images = Calls(tmp_path, "tidepool:image:Image")
    inputs = images.checked(_IMAGE)
    digest = plainly(inputs)["digest"]
    assert len(digest) == 64
    assert plainly(images.create(inputs, preview=True).properties)["digest"] == digest
    assert plainly(images.checked(_IMAGE | {"recipe": UNKNOWN}))["digest"] is UNKNOWN
    assert not (tmp_path / "images").exists()


def test_an_image_that_does_not_hold_a_role_is_refused_before_it_is_built(tmp_path: Path) -> None:
    images = Calls(tmp_path, "tidepool:image:Image")
    assert plainly(images.checked(_IMAGE | {"needs": ["slurm"]}))["needs"] == ["slurm"]
    refused = images.failures(_IMAGE | {"needs": ["slurm", "kubernetes"]})["needs"]
    assert refused.startswith(
        "the image debian-12 does not hold the role kubernetes: it lacks package containerd, "
        "package containernetworking-plugins, package runc, tool kubelet, tool pause. Add that to /"
    )
    assert (
        "'moon' is no role; allowed: slurm, kubernetes"
        in images.failures(_IMAGE | {"needs": ["moon"]})["needs"]
    )


def test_what_is_known_of_a_machine_is_told_in_previews(machines: Calls) -> None:
    inputs = machines.checked(_MACHINE | {"image": UNKNOWN})
    made = plainly(machines.create(inputs, preview=True).properties)
    assert made["connection"] == {"kind": "local", "stack": "dev", "machine": "cpu-1"}
    assert transport(made["connection"], Path("/nowhere")).where == "on machine cpu-1 of stack dev"
    assert made["image"] is UNKNOWN
    made = plainly(
        machines.update("dev/cpu-1", _MACHINE, _MACHINE | {"cpus": UNKNOWN}, preview=True).properties
    )
    assert made["connection"] == {"kind": "local", "stack": "dev", "machine": "cpu-1"}


def test_a_configuration_without_known_files_has_no_digest_yet(tmp_path: Path) -> None:
    configurations = Calls(tmp_path, "tidepool:slurm:Configuration")
    inputs = {"hosts": [UNKNOWN], "files": {"slurm.conf": "a"}}
    known = plainly(configurations.create(inputs, preview=True).properties)
    assert len(known["digest"]) == 16
    unknown = plainly(configurations.create(inputs | {"files": UNKNOWN}, preview=True).properties)
    assert "digest" not in unknown


def test_differences_are_told_by_property(machines: Calls) -> None:
    answer = machines.diff(
        _MACHINE, _MACHINE | {"cpus": 4.0, "image": "b" * 64, "aliases": ["head"]}, ["cpus"]
    )
    assert answer.changes
    assert (answer.diffs, answer.replaces) == (["aliases", "image"], ["image"])
    assert answer.delete_before_replace
    assert answer.kinds == {
        "aliases": "ADD",
        "image": "UPDATE_REPLACE",
    }
    assert not machines.diff(_MACHINE, _MACHINE).changes


# Keys


def test_a_munge_key_is_1024_random_bits_and_secret(tmp_path: Path) -> None:
    keys = Calls(tmp_path, "tidepool:keys:MungeKey")
    assert keys.create({}, preview=True).properties == {}
    first, second = keys.create({}), keys.create({})
    assert has_secret(first.properties["key"])
    assert len(base64.b64decode(plainly(first.properties)["key"])) == 128
    assert plainly(first.properties) != plainly(second.properties)
    assert first.resource_id != second.resource_id
    assert plainly(first.properties)["key"] not in str(first.resource_id)
    # It is nowhere but in the state, where it is kept by every operation.
    kept = keys.update(str(first.resource_id), first.properties, {}).properties
    assert kept["key"] == first.properties["key"]
    read = keys.read(str(first.resource_id), first.properties, {})
    assert read.resource_id == first.resource_id
    assert has_secret(read.properties["key"])


def test_an_ssh_key_is_read_by_ssh(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

    made = Calls(tmp_path, "tidepool:keys:SshKey").create({})
    assert has_secret(made.properties["privateKey"])
    assert not has_secret(made.properties["publicKey"])
    told = plainly(made.properties)
    private = load_ssh_private_key(told["privateKey"].encode(), None)
    public = load_ssh_public_key(told["publicKey"].encode())
    assert private.public_key() == public
    assert told["publicKey"].endswith(" it")
    assert str(made.resource_id).startswith("SHA256:")


# Volumes


def test_a_volume_is_a_folder(volumes: Calls, tmp_path: Path) -> None:
    inputs = {"stack": "dev", "volume": "home"}
    folder = tmp_path / "dev/volumes/home"
    assert plainly(volumes.create(inputs, preview=True).properties)["path"] == str(folder)
    assert not folder.exists()
    made = volumes.create(inputs)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    # It is a machine that gives it to somebody, and nothing takes it away again.
    folder.chmod(0o1770)
    assert volumes.create(inputs).resource_id == made.resource_id
    volumes.update("dev/home", made.properties, inputs | {"retain": True})
    assert stat.S_IMODE(folder.stat().st_mode) == 0o1770
    assert volumes.read("dev/home", made.properties, inputs).resource_id == "dev/home"
    volumes.delete("dev/home", made.properties)
    assert list(tmp_path.iterdir()) == []
    assert not volumes.read("dev/home", made.properties, inputs).resource_id
    volumes.delete("dev/home", made.properties)


def test_a_volume_that_is_retained_outlives_its_resource(volumes: Calls, tmp_path: Path) -> None:
    inputs = {"stack": "dev", "volume": "home", "retain": True}
    made = volumes.create(inputs)
    (tmp_path / "dev/volumes/home/file").write_text("kept")
    volumes.delete("dev/home", made.properties)
    volumes.create(inputs)
    assert (tmp_path / "dev/volumes/home/file").read_text() == "kept"


def test_names_that_lead_elsewhere_are_refused(volumes: Calls, boots: Calls) -> None:
    assert set(volumes.failures({"stack": "..", "volume": "a/b"})) == {"stack", "volume"}
    assert set(boots.failures(_BOOT | {"stack": "../x", "boot": "."})) == {"stack", "boot"}


# Boots


def test_a_boot_is_kept_for_its_owner_alone(boots: Calls, tmp_path: Path) -> None:
    secret = property_value(_BOOT["files"], secret=True)
    inputs = boots.checked(_BOOT | {"files": secret})
    made = boots.create(inputs)
    path = tmp_path / "dev/boots/cpu.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert has_secret(made.properties["files"])
    kept = json.loads(path.read_text())
    assert kept["files"][0]["content"] == "aGk="
    assert kept["services"][0]["environment"] == [["A", "1"], ["B", "2"]]
    assert boots.read("dev/cpu", made.properties, inputs).resource_id == "dev/cpu"
    path.write_text(path.read_text().replace("aGk=", "aGo="))
    assert not boots.read("dev/cpu", made.properties, inputs).resource_id
    boots.update("dev/cpu", made.properties, inputs)
    assert has_secret(boots.read("dev/cpu", made.properties, inputs).properties["files"])
    boots.delete("dev/cpu", made.properties)
    assert list(tmp_path.iterdir()) == []
    boots.delete("dev/cpu", made.properties)


def test_machines_name_what_they_are_missing(machines: Calls, boots: Calls, tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"image aaaaaaaaaaaa is not in .*; the resource Image puts it there"):
        machines.create(_MACHINE)


# Images


def test_a_build_is_told_often_for_now_and_seldom_for_good() -> None:
    now = [0.0]
    shown: list[str] = []
    kept: list[str] = []
    telling = ProgressReport(shown.append, kept.append, lambda: now[0])
    for step in range(2000):
        now[0] = step / 10
        telling(Progress(Phase.UNPACK, step / 2000, "munge"))
    telling(Progress(Phase.WRITE, 0.0))
    assert len(shown) > 1000
    assert len(kept) == 3
    assert kept[0] == "unpacking packages 30% munge"
    assert shown[-1] == "writing 0%"
