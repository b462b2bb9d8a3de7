"""What a person says of existing hosts: read as a whole, with all mistakes at once, each with its key and the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.infrastructures.ssh.specs import HOSTS, mapping, spec
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import SpecError
from tidepool.infrastructures.ssh.preflight import demands
from tidepool.infrastructures.ssh.reading import connection_of, host_of, read_options

OPTIONS = "controller.infrastructure.options"


def mistakes(given: ClusterSpec) -> list[str]:
    with pytest.raises(SpecError) as raised:
        read_options(given)
    return [str(mistake) for mistake in raised.value.mistakes]


def test_hosts_are_read_with_how_each_is_reached() -> None:
    options = read_options(spec(user="operator"))
    assert options.fleets == {"cpu": ("alpha", "beta")}
    assert options.own == ("head", "head2", "head3", "head4")
    assert connection_of(options.place, options.hosts["alpha"]) == {
        "kind": "host",
        "address": "192.0.2.11",
        "user": "operator",
        "key": "/keys/id",
        "known_hosts": "/keys/known_hosts",
    }
    way = connection_of(options.place, options.hosts["beta"])
    assert (way["user"], way["port"]) == ("admin", 2222)


def test_an_inventory_gives_hosts_and_groups() -> None:
    text = "[rack1]\nnode[01:02] ansible_user=admin\n[heads]\nhead[1:4]\n"
    given = spec(
        {"hosts": ["rack1"]}, hosts={}, inventory="/etc/ansible/physics", machines={"hosts": ["heads"]}
    )
    options = read_options(given, lambda path: {Path("/etc/ansible/physics"): text}[path])
    assert options.fleets == {"cpu": ("node01", "node02")}
    assert options.hosts["node02"].address == "node02"
    assert options.hosts["node02"].user == "admin"


def test_all_mistakes_are_told_at_once_with_their_keys() -> None:
    wrong = spec({"hosts": ["alpha", "gamma"]}, volumes={"home": "nowhere"}, user="Not A User", colour="red")
    said = "\n".join(mistakes(wrong))
    assert f"{OPTIONS}.volumes.home = 'nowhere'" in said
    assert f"{OPTIONS}.user" in said
    assert f"{OPTIONS}.colour = 'red': no such key" in said


@pytest.mark.parametrize(
    ("given", "key", "words"),
    [
        (
            spec({"hosts": ["alpha", "gamma"]}),
            "fleets[0].infrastructures[0].options.hosts[1]",
            "hosts and groups are",
        ),
        (spec({"hosts": ["alpha"]}), "fleets[0].infrastructures[0].options.hosts", "lower max_nodes"),
        (spec({"hosts": ["alpha", "alpha"]}), "fleets[0].infrastructures[0].options.hosts[1]", "twice"),
        (
            spec({"hosts": ["alpha", "head"]}),
            "fleets[0].infrastructures[0].options.hosts",
            "a host is one node",
        ),
        (spec(machines={"hosts": ["head"]}), f"{OPTIONS}.machines.hosts", "lower login_machines"),
        (spec(volumes={"home": "nas:/home"}), f"{OPTIONS}.volumes.slurmctld", "it is missing"),
        (
            spec(volumes={"home": "/home", "slurmctld": "/s", "scratch": "/x"}),
            f"{OPTIONS}.volumes.scratch",
            "this cluster mounts",
        ),
        (spec(users={"slurm": {"uid": 64030}}), f"{OPTIONS}.users.munge", "it is missing"),
        (spec(hosts={**HOSTS, "twin": "192.0.2.1"}), f"{OPTIONS}.hosts.twin", "head is the same host"),
        (spec(key="id_ed25519"), f"{OPTIONS}.key", ""),
        (spec(hosts={}), f"{OPTIONS}.hosts", "there are none"),
        (
            spec(hosts={**HOSTS, "twin": {"adress": "192.0.2.9"}}),
            f"{OPTIONS}.hosts.twin.adress = '192.0.2.9'",
            "no such key; did you mean address? known here: address",
        ),
        (spec(inventory="/not/there"), f"{OPTIONS}.inventory", "cannot be read"),
    ],
)
def test_what_is_wrong_is_told_with_its_key_and_the_remedy(given: ClusterSpec, key: str, words: str) -> None:
    assert any(key in each and words in each for each in mistakes(given)), mistakes(given)


def test_a_fleet_of_hosts_may_have_its_controller_elsewhere() -> None:
    given: dict[str, Any] = mapping()
    place = given["controller"]["infrastructure"]["options"]
    place = {**place, "volumes": {"home": "nas:/home"}}
    del place["machines"]
    given["controller"] = {}
    given["infrastructures"] = {"ssh": place}
    options = read_options(ClusterSpec.model_validate(given))
    assert (options.own, options.fleets) == ((), {"cpu": ("alpha", "beta")})


def test_each_host_is_asked_for_what_its_node_has_and_others_are_not_asked() -> None:
    given = spec(hosts={**HOSTS, "spare": "192.0.2.99"})
    asked = demands(given, read_options(given), "dev").hosts
    assert [(each.host, each.cpus) for each in asked] == [
        *((name, 2) for name in ("head", "head2", "head3", "head4")),
        ("alpha", 4),
        ("beta", 4),
    ]
    assert asked[-1].path == "fleets[0].infrastructures[0].options.hosts"


def test_hosts_of_a_map_are_in_the_order_of_their_names_and_those_of_a_list_as_it_is() -> None:
    """Engines sort the keys of a map: node10 came second, and all hosts from then on were other nodes'."""
    names = [f"node{number}" for number in range(1, 13)]
    hosts = {name: f"192.0.2.{number}" for number, name in enumerate(names, 11)}
    place: dict[str, Any] = {
        "hosts": dict(sorted(hosts.items())),
        "volumes": {"home": "/home"},
        "machines": {},
    }
    described = mapping({"hosts": ["node10", "node9"]}, **place)
    described["controller"], described["infrastructures"] = (
        {},
        {"ssh": described["controller"]["infrastructure"]["options"]},
    )
    del described["infrastructures"]["ssh"]["machines"]
    assert read_options(ClusterSpec.model_validate(described)).fleets == {"cpu": ("node10", "node9")}
    described["fleets"][0]["infrastructures"] = ["ssh"]
    assert read_options(ClusterSpec.model_validate(described)).fleets == {"cpu": tuple(names)}
    # Those of an inventory are before them, as they stand in it.
    described["infrastructures"]["ssh"]["inventory"] = "/etc/ansible/physics"
    options = read_options(ClusterSpec.model_validate(described), lambda _: "zeta\nalpha\n")
    assert options.fleets == {"cpu": ("zeta", "alpha", *names)}


def test_a_nodes_host_follows_from_its_number() -> None:
    hosts = ("alpha", "beta")
    assert [host_of(hosts, number) for number in (1, 2, 3)] == ["alpha", "beta", "alpha"]


@pytest.mark.parametrize(
    ("own", "hosts"),
    [
        ({"login_machines": 0}, 1),
        ({"login_machines": 0, "backup": True}, 2),
        ({"login_machines": 0, "accounting": {}}, 3),
        ({"login_machines": 2}, 5),
    ],
)
def test_the_clusters_own_machines_take_the_places_up_to_the_last_that_there_is(
    own: dict[str, Any], hosts: int
) -> None:
    given = spec(
        controller=own,
        hosts={**HOSTS, "head5": "192.0.2.5"},
        machines={"hosts": ["head", "head2", "head3", "head4", "head5"]},
        volumes={"home": "/home", "slurmctld": "/s", **({"database": "/d"} if "accounting" in own else {})},
    )
    asked = [each.host for each in demands(given, read_options(given), "dev").hosts]
    assert asked == [*["head", "head2", "head3", "head4", "head5"][:hosts], "alpha", "beta"]
