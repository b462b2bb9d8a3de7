"""What an `up` came to, from the engine's events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tidepool.scaling.ports import Failure, StackError, UpOutcome
from tidepool.scaling.stack.deployment import outcome

NODE, MACHINE = "tidepool:slurm:Node", "tidepool:local:Machine"


def urn(kind: str, name: str) -> str:
    return f"urn:pulumi:dev::cluster::tidepool:components:ComputeFleet${kind}::{name}"


def done(op: str, kind: str, name: str, **outputs: Any) -> dict[str, Any]:
    return {"resOutputsEvent": {"metadata": {"op": op, "urn": urn(kind, name), "new": {"outputs": outputs}}}}


def failed(op: str, kind: str, name: str, text: str) -> list[dict[str, Any]]:
    message = f"error: {text}\n"
    return [
        {"resOpFailedEvent": {"metadata": {"op": op, "urn": urn(kind, name)}, "status": 0, "steps": 1}},
        {"diagnosticEvent": {"urn": urn(kind, name), "message": message, "severity": "error"}},
    ]


def made(name: str, **outputs: Any) -> list[dict[str, Any]]:
    return [done("create", MACHINE, name), done("create", NODE, name, **outputs)]


def came_to(
    events: Sequence[dict[str, Any]], *nodes: str, is_failed: bool = False, said: str = ""
) -> UpOutcome:
    return outcome(events, nodes, 1.5, is_failed, said)


def test_nodes_that_came_up_are_made_and_those_that_went_removed() -> None:
    gone = [done("delete", NODE, "cpu-2"), done("delete", MACHINE, "cpu-2")]
    told = came_to([*made("cpu-1", state="up"), *gone], "cpu-1", "cpu-2")
    assert told == UpOutcome(frozenset({"cpu-1"}), frozenset({"cpu-2"}), {}, 1.5)


def test_what_is_as_it_should_be_is_neither() -> None:
    same = [done("same", MACHINE, "cpu-1"), done("same", NODE, "cpu-1")]
    assert came_to(same, "cpu-1", "cpu-2") == UpOutcome(duration_s=1.5)


def test_other_nodes_are_none_of_its_business() -> None:
    assert came_to(made("cpu-7"), "cpu-1") == UpOutcome(duration_s=1.5)


def test_one_that_is_not_up_yet_is_not_made_yet() -> None:
    told = came_to(made("cpu-1", state="coming"), "cpu-1")
    assert told == UpOutcome(duration_s=1.5, coming=frozenset({"cpu-1"}))


def test_a_replacement_is_made_and_not_removed() -> None:
    events = [done("delete-replaced", NODE, "cpu-1"), done("create-replacement", NODE, "cpu-1")]
    assert came_to(events, "cpu-1").made == {"cpu-1"}
    assert came_to(events, "cpu-1").removed == frozenset()


@pytest.mark.parametrize("cause", ["capacity", "transient", "permanent", "boot"])
def test_a_failure_says_of_which_kind_it_is(cause: Any) -> None:
    events = [*made("cpu-1"), *failed("create", MACHINE, "cpu-2", f"sold out [cause: {cause}]")]
    told = came_to(events, "cpu-1", "cpu-2", is_failed=True)
    assert told.made == {"cpu-1"}
    assert told.failed == {"cpu-2": Failure(cause, "sold out")}


def test_a_failure_that_does_not_say_may_pass() -> None:
    told = came_to(failed("delete", NODE, "cpu-1", "it runs the jobs 7"), "cpu-1", is_failed=True)
    assert told.failed == {"cpu-1": Failure("transient", "it runs the jobs 7")}


def test_a_membership_that_failed_is_no_node_though_its_machine_was_made() -> None:
    events = [
        done("create", MACHINE, "cpu-1"),
        *failed("create", NODE, "cpu-1", "it is not up [cause: boot]"),
    ]
    told = came_to(events, "cpu-1", is_failed=True)
    assert (told.made, told.failed["cpu-1"].cause) == (frozenset(), "boot")


def test_what_was_not_come_to_failed_as_well() -> None:
    told = came_to([*failed("create", MACHINE, "cpu-1", "no")], "cpu-1", "cpu-2", is_failed=True)
    assert set(told.failed) == {"cpu-1", "cpu-2"}


def test_an_engine_that_failed_before_any_node_is_an_error_with_its_words() -> None:
    general = {"diagnosticEvent": {"message": "error: the program ended with code 1", "severity": "error"}}
    with pytest.raises(StackError, match="the program ended with code 1"):
        came_to([general], "cpu-1", is_failed=True)
    with pytest.raises(StackError, match="killed"):
        came_to([], "cpu-1", is_failed=True, said="killed")


def test_a_long_text_is_for_people_and_ends() -> None:
    told = came_to(failed("create", NODE, "cpu-1", "x" * 5000 + " [cause: boot]"), "cpu-1", is_failed=True)
    assert len(told.failed["cpu-1"].text) < 1000
    assert told.failed["cpu-1"].cause == "boot"
