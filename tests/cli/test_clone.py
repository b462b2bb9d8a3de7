"""`tidepool clone`: another stack, with a network and keys of its own; on a mistake nothing is written."""

from __future__ import annotations

import json
from ipaddress import IPv4Network
from typing import Any

import yaml

from tests.cli.standins import SPEC, Person
from tidepool.cli import errors
from tidepool.cluster.spec_reading import read_spec
from tidepool.infrastructures.local.kernel import host_networks


def _spec(somebody: Person, stack: str) -> dict[str, Any]:
    document = yaml.safe_load((somebody.folder / f"Pulumi.{stack}.yaml").read_text())
    found: dict[str, Any] = document["config"]["cluster:spec"]
    return found


def _files(somebody: Person) -> list[str]:
    return sorted(each.name for each in somebody.folder.glob("Pulumi.*.yaml"))


def test_a_clone_has_a_name_and_a_network_of_its_own_and_the_changes(somebody: Person) -> None:
    somebody.write("other", network="10.255.0.0/16", fleets=None)
    said = somebody.runs(
        "clone", "dev", "dev-b", "--set", "fleets.cpu.max_nodes=8", "--set", "controller.shape.cpus=2"
    )
    assert said.exit_code == 0, said.output
    assert "next: `sudo tidepool up --stack dev-b`" in said.output
    spec = _spec(somebody, "dev-b")
    made = read_spec(spec)
    assert (made.name, made.fleets[0].max_nodes, made.controller.shape.cpus) == ("dev-b", 8, 2)
    taken = [IPv4Network(each) for each in ("10.99.0.0/16", "10.255.0.0/16")]
    assert not any(made.network.overlaps(each) for each in (*taken, *host_networks()))
    assert made.fleets[0].subnet.subnet_of(made.network)
    assert _spec(somebody, "dev") == SPEC, "the source stays as it was"
    assert (somebody.folder / "Pulumi.dev-b.yaml").stat().st_mode & 0o777 == 0o600
    assert somebody.engine.asked == []


def test_clones_of_clones_have_networks_apart(somebody: Person) -> None:
    for name in ("b", "c", "d"):
        assert somebody.runs("clone", "dev", name, "--json").exit_code == 0
    networks = [read_spec(_spec(somebody, name)).network for name in ("dev", "b", "c", "d")]
    assert len(set(networks)) == 4


def test_the_source_s_secrets_and_their_key_are_left_out_and_told_and_comments_stay(somebody: Person) -> None:
    file = somebody.folder / "Pulumi.dev.yaml"
    text = f"# Our cluster.\nencryptionsalt: v1:abc\nconfig:\n  cloudstack:secretKey: {{secure: AAAB}}\n  aws:region: x\n  cluster:spec: {json.dumps(SPEC)}\n"
    file.write_text(text)
    said = somebody.runs("clone", "dev", "b")
    assert said.exit_code == 0, said.output
    assert "left out: cloudstack:secretKey, a secret of dev" in said.output
    made = (somebody.folder / "Pulumi.b.yaml").read_text()
    assert "# Our cluster." in made
    document = yaml.safe_load(made)
    assert set(document) == {"config"}
    assert set(document["config"]) == {"aws:region", "cluster:spec"}
    assert "AAAB" not in made
    assert file.read_text() == text


def test_all_mistakes_are_told_at_once_and_nothing_is_written(somebody: Person) -> None:
    words = [
        "fleets.gpu.max_nodes=3",
        "fleets.cpu.max_nodes=0",
        "fleets.cpu.shape.cpus=many",
        "imagine=x",
        "name=dev",
    ]
    said = somebody.runs("clone", "dev", "b", *(each for word in words for each in ("--set", word)))
    assert said.exit_code == errors.USAGE
    assert "5 mistakes in the cluster's spec" in said.output
    for told in (
        "fleets.gpu.max_nodes = 3: there is no gpu; did you mean cpu? known here: cpu",
        "fleets[0].max_nodes = 0",
        "fleets[0].shape.cpus = 'many'",
        "imagine",
        "name = 'dev': its stack has that name",
    ):
        assert told in said.output
    assert _files(somebody) == ["Pulumi.dev.yaml"]


def test_what_is_there_is_never_written_over(somebody: Person) -> None:
    somebody.write("b", network="10.1.0.0/16")
    before = (somebody.folder / "Pulumi.b.yaml").read_text()
    said = somebody.runs("clone", "dev", "b")
    assert said.exit_code == errors.USAGE
    assert "Pulumi.b.yaml already, and nothing was written" in said.output
    assert (somebody.folder / "Pulumi.b.yaml").read_text() == before


def test_a_person_says_which_network(somebody: Person) -> None:
    said = somebody.runs("clone", "dev", "b", "--set", "network=172.20.0.0/16", "--json")
    assert json.loads(said.stdout)["network"] == "172.20.0.0/16"
    assert _spec(somebody, "b")["fleets"][0]["subnet"] == "172.20.1.0/24"


def test_a_word_that_is_no_change_is_refused(somebody: Person) -> None:
    for word, told in (("fleets.cpu.max_nodes", "is no PATH=VALUE"), ("image=[", "is no YAML")):
        said = somebody.runs("clone", "dev", "b", "--set", word)
        assert said.exit_code == errors.USAGE
        assert told in said.output
    said = somebody.runs("clone", "nothing", "b")
    assert said.exit_code == errors.USAGE
    assert "stack nothing is not described" in said.output
    assert _files(somebody) == ["Pulumi.dev.yaml"]
