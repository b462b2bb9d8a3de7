"""Components and infrastructures: nothing but the contract is between them, and machines are made once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

import pytest
from pulumi.runtime.mocks import MockResourceArgs

from tests.components.spanning import Elsewhere, answers_of_elsewhere
from tests.components.stack import answers, program_of, spec_with
from tests.simulation.infrastructure import FakeInfrastructure
from tidepool.cluster.failures import InsufficientCapacity
from tidepool.infrastructures import MachineKey
from tidepool.simulation.machines import MachineRequest
from tidepool.testing import register


def test_components_ask_for_nothing_but_the_contract() -> None:
    spec = spec_with(controller={"backup": True, "accounting": {}})
    here = register(program_of(spec), answers)
    there = register(program_of(spec, Elsewhere()), answers_of_elsewhere)
    named = {name.replace("tidepool:local:", "elsewhere:index:") for name in here.resources}
    assert set(there.resources) == named
    node = there["tidepool:slurm:Node cpu-1"]
    assert node.inputs["machine"] == {"kind": "elsewhere", "machine": "cpu-1"}
    assert there["elsewhere:index:Machine cpu-1"].inputs["boot"] == "elsewhere-cpu"
    assert "files" in there["elsewhere:index:Boot cpu"].secrets


@dataclass(frozen=True)
class Provider:
    """Answers as one that makes machines on a fake infrastructure."""

    fake: FakeInfrastructure

    def __call__(self, args: MockResourceArgs) -> Mapping[str, Any]:
        if args.typ == "tidepool:local:Machine":
            self.fake.create(
                MachineRequest(
                    MachineKey("dev", args.name),
                    IPv4Address(args.inputs["address"]),
                    args.inputs["cpus"],
                    args.inputs["memoryMib"],
                    args.inputs["image"],
                    args.inputs["boot"],
                )
            )
        return answers(args)


def test_two_ups_make_each_machine_once() -> None:
    fake = FakeInfrastructure()
    for _ in range(2):
        register(program_of(spec_with()), Provider(fake))
    machines = {machine.key.node: str(machine.address) for machine in fake.list("dev")}
    assert machines == {
        "ctl": "10.77.0.2",
        "login-1": "10.77.0.16",
        "cpu-1": "10.77.10.1",
        "cpu-2": "10.77.10.2",
        "gpu-1": "10.77.12.1",
    }
    assert {machine.key.fleet for machine in fake.list("dev")} == {"", "login", "cpu", "gpu"}


def test_an_up_that_was_told_of_no_capacity_goes_on_where_there_is_some_again() -> None:
    fake = FakeInfrastructure(stock=3)
    with pytest.raises(InsufficientCapacity):
        register(program_of(spec_with()), Provider(fake))
    assert len(fake.list("dev")) == 3
    fake.stock = None
    register(program_of(spec_with()), Provider(fake))
    assert len(fake.list("dev")) == 5
