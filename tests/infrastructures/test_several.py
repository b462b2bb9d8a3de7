"""Several infrastructures as one: the union, and one that does not answer makes nothing look gone."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cluster.specs import spec_mapping, with_fleet
from tests.infrastructures.conftest import a_request
from tests.simulation.infrastructure import FakeInfrastructure
from tidepool.cluster.failures import InsufficientCapacity, Permanent, Transient
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures import Machine, MachineKey
from tidepool.infrastructures.registry import BUILT_IN, descriptor, failure_kind_of, infrastructure_of_type
from tidepool.infrastructures.several import Several, listing, machines_of_stack

ROOT = Path(__file__).parents[2]


@dataclass
class Two:
    """Two infrastructures with a machine each."""

    here: FakeInfrastructure = field(default_factory=FakeInfrastructure)
    there: FakeInfrastructure = field(default_factory=FakeInfrastructure)

    def __post_init__(self) -> None:
        self.several = Several(lambda: {"here": self.here, "there": self.there}, patience_s=0.2)
        self.here.create(a_request("one", 1))
        self.there.create(a_request("one", 2))


def nodes(machines: tuple[Machine, ...]) -> list[tuple[str, str]]:
    return [(machine.key.node, machine.key.infrastructure) for machine in machines]


def test_the_list_is_the_union_and_each_machine_says_where_it_is() -> None:
    assert nodes(Two().several.list("one")) == [("cpu-1", "here"), ("cpu-2", "there")]


def test_one_that_fails_is_silent_and_the_others_are_told() -> None:
    two = Two()
    two.there.fail(Transient("the API is down"))
    found = two.several.listing("one")
    assert nodes(found.machines) == [("cpu-1", "here")]
    assert found.silent == {"there": "the API is down"}
    two.there.fail(Transient("the API is down"))
    with pytest.raises(Transient, match="there: the API is down"):
        two.several.list("one")


def test_where_none_answers_nothing_is_known() -> None:
    two = Two()
    for each in (two.here, two.there):
        each.fail(Permanent("no"))
    with pytest.raises(Transient, match=r"here: no; there: no"):
        two.several.listing("one")


def test_a_person_is_told_who_is_silent_also_where_all_are_and_where_there_is_one() -> None:
    two = Two()
    for each in (two.here, two.there):
        each.fail(Permanent("no"))
    assert two.several.reachable("one").silent == {"here": "no", "there": "no"}
    alone = Several(lambda: {"here": two.here})
    assert nodes(alone.reachable("one").machines) == [("cpu-1", "here")], "it says where it is"
    two.here.fail(Permanent("no"))
    assert alone.reachable("one").silent == {"here": "no"}


def test_one_that_hangs_holds_up_nobody_and_is_asked_again_when_it_has_answered() -> None:
    two, go_on = Two(), threading.Event()
    asked = []

    class Hanging(FakeInfrastructure):
        def list(self, stack: str) -> tuple[Machine, ...]:
            asked.append(stack)
            go_on.wait(30)
            return ()

    hanging = Hanging()
    several = Several(lambda: {"here": two.here, "hanging": hanging}, patience_s=0.1)
    for _ in range(3):
        found = several.listing("one")
        assert nodes(found.machines) == [("cpu-1", "here")]
        assert "has not answered within 0.1 s" in found.silent["hanging"]
    assert asked == ["one"], "a second question would wait behind the first"
    go_on.set()
    while several.listing("one").silent:
        pass
    assert len(asked) >= 2


def test_the_same_name_on_two_is_two_machines_and_deleting_one_spares_the_other() -> None:
    two = Two()
    two.there.create(a_request("one", 1))
    (here, there, _) = two.several.list("one")
    assert (here.key.node, here.key.infrastructure, there.key.infrastructure) == ("cpu-1", "here", "there")
    two.several.delete(there.key)
    assert two.here.known(MachineKey("one", "cpu-1")) is not None
    assert two.several.read(here.key) == here
    assert two.several.read(there.key) is None
    with pytest.raises(Permanent, match="machines of here, there"):
        two.several.delete(MachineKey("one", "cpu-1", infrastructure="elsewhere"))


def test_one_alone_is_as_if_it_were_asked_itself() -> None:
    fake = FakeInfrastructure()
    machine = fake.create(a_request("one", 1))
    several = Several(lambda: {"here": fake})
    assert several.list("one") == listing(fake, "one").machines == (machine,)
    fake.fail(InsufficientCapacity("none"))
    with pytest.raises(InsufficientCapacity):
        several.listing("one")


def test_a_spec_names_them_and_another_spec_names_others(tmp_path: Path) -> None:
    one = spec_mapping(fleets=spec_mapping()["fleets"][:1], partitions=[{"name": "main"}])
    specs = [ClusterSpec.model_validate(one)]
    several = machines_of_stack(lambda: specs[-1], "dev", tmp_path)
    assert several.list("dev") == ()
    specs.append(ClusterSpec.model_validate(with_fleet(1, infrastructures=["local", "openstack"])))
    found = several.listing("dev")
    assert found.machines == ()
    assert "this release does not know it; known are local, " in found.silent["openstack"]


def test_every_infrastructure_that_programs_have_has_a_machine_side() -> None:
    types = [descriptor(name).types[0] for name in BUILT_IN]
    assert len({*types}) == len(types), "by its type it is known whose machine it is"
    assert infrastructure_of_type("tidepool:local:Machine") == "local"
    assert infrastructure_of_type("tidepool:ssh:Machine") == ""
    for name in BUILT_IN:
        assert failure_kind_of(name)("nobody has ever said this") in (Transient, Permanent)


def test_a_package_that_is_missing_is_told_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tidepool.infrastructures.libvirt.machines", raising=False)
    monkeypatch.setitem(sys.modules, "tidepool.infrastructures.libvirt.ask", None)
    several = machines_of_stack(
        lambda: ClusterSpec.model_validate(with_fleet(1, infrastructures=["local", "libvirt"])), "dev", ROOT
    )
    assert "infrastructure libvirt: " in several.listing("dev").silent["libvirt"]


#: Asks for the machines of a cluster on this machine, as `tidepool scale` does.
LOADED = """
import sys
from pathlib import Path
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.several import machines_of_stack
spec = ClusterSpec.model_validate({
    "name": "physics", "network": "10.77.0.0/16", "partitions": [{"name": "main"}],
    "fleets": [{"name": "cpu", "subnet": "10.77.1.0/24", "max_nodes": 2, "shape": {"cpus": 1, "memory": "1GiB"}}],
})
assert machines_of_stack(lambda: spec, "dev", Path("/nowhere")).list("dev") == ()
sys.stdout.write("\\n".join(sorted(sys.modules)))
"""


def test_looking_at_machines_of_local_loads_no_other_machine_side() -> None:
    said = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(said.stdout.split())
    assert "tidepool.infrastructures.local.machines" in loaded
    assert not loaded & {package for name, package in BUILT_IN.items() if name != "local"}
