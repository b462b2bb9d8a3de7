"""Which inputs replace a resource, which change it, and what an unknown value means. For each kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidepool.infrastructures.registry import BUILT_IN, descriptor
from tidepool.provider.kinds import TOKENS, Kinds
from tidepool.resources.declarations import RETIRED
from tidepool.resources.kind import Home
from tidepool.resources.values import UNKNOWN

_KINDS = Kinds(Home(Path("/nowhere"), Path("/nowhere/images")))
_CTL = {"kind": "local", "stack": "dev", "machine": "ctl"}
_LOGIN = {"kind": "local", "stack": "dev", "machine": "login-1"}
_SLOTS: dict[str, Any] = {
    "controller": _CTL,
    "names": "cpu-[1-4]",
    "addresses": "10.77.1.[1-4]",
    "cpus": 2.0,
    "features": ["cpu"],
    "gres": "",
}
_MACHINE: dict[str, Any] = {
    "stack": "dev",
    "machine": "cpu-1",
    "network": "net",
    "address": "10.77.1.1",
    "image": "aa",
    "boot": "cpu",
    "cpus": 2.0,
    "memoryMib": 64.0,
}
_NODE: dict[str, Any] = {"controller": _CTL, "node": "cpu-1", "machine": _LOGIN, "slots": "cpu"}
_CONFIGURATION: dict[str, Any] = {
    "hosts": [_CTL],
    "files": {"slurm.conf": "a"},
}


def _changes(token: str, old: dict[str, Any], **new: Any) -> dict[str, bool]:
    """The inputs that change, and whether they replace."""
    return {change.key: change.replaces for change in _KINDS.of(token).diff(old, {**old, **new})}


@pytest.mark.parametrize(
    "token", sorted({*TOKENS, *(token for name in BUILT_IN for token in descriptor(name).kinds)})
)
def test_every_kind_is_called_as_it_is_registered(token: str) -> None:
    kind = _KINDS.of(token)
    assert kind.resource.token == token or token in RETIRED.values()
    assert kind.diff({}, {}) == ()


@pytest.mark.parametrize(
    ("changed", "replaces"),
    [
        ({"cpus": 4.0}, False),
        ({"memoryMib": 128.0}, False),
        ({"boot": "other"}, False),
        ({"aliases": ["head"]}, False),
        ({"image": "bb"}, True),
        ({"address": "10.77.1.2"}, True),
        ({"network": UNKNOWN}, True),
        ({"boot": UNKNOWN}, False),
    ],
)
def test_machines(changed: dict[str, Any], replaces: bool) -> None:
    assert _changes("tidepool:local:Machine", _MACHINE, **changed) == dict.fromkeys(changed, replaces)
    assert _KINDS.of("tidepool:local:Machine").resource.delete_first


@pytest.mark.parametrize(
    ("changed", "replaces"),
    [
        ({"names": "cpu-[1-9]", "addresses": "10.77.1.[1-9]"}, set()),
        ({"names": "cpu-[1-2]", "addresses": "10.77.1.[1-2]"}, set()),
        ({"addresses": "10.78.1.[1-4]"}, {"addresses"}),
        ({"names": "gpu-[1-4]"}, set()),
        ({"names": "gpu-[1-4]", "addresses": "10.78.1.[1-4]"}, {"addresses"}),
        ({"features": ["cpu", "avx"]}, set()),
        ({"cpus": 4.0}, {"cpus"}),
        ({"gres": "gpu:1"}, {"gres"}),
        ({"controller": UNKNOWN}, set()),
        ({"controller": _LOGIN}, {"controller"}),
    ],
)
def test_slots(changed: dict[str, Any], replaces: set[str]) -> None:
    found = _changes("tidepool:slurm:Slots", _SLOTS, **changed)
    assert set(found) == set(changed)
    assert {key for key, replacing in found.items() if replacing} == replaces


@pytest.mark.parametrize(
    ("changed", "replaces"),
    [
        ({"machine": UNKNOWN}, True),
        ({"slots": UNKNOWN}, True),
        ({"node": "cpu-2"}, True),
        ({"controller": UNKNOWN}, False),
        ({"controller": _LOGIN}, True),
    ],
)
def test_nodes(changed: dict[str, Any], replaces: bool) -> None:
    assert _changes("tidepool:slurm:Node", _NODE, **changed) == dict.fromkeys(changed, replaces)


@pytest.mark.parametrize(
    ("changed", "replaces"),
    [
        ({"files": {"slurm.conf": "b"}}, False),
        ({"files": UNKNOWN}, False),
        ({"hosts": [_CTL, _LOGIN]}, False),
        ({"hosts": [_CTL, UNKNOWN]}, False),
        ({"hosts": [_LOGIN]}, True),
        ({"hosts": UNKNOWN}, True),
    ],
)
def test_configurations(changed: dict[str, Any], replaces: bool) -> None:
    found = _changes("tidepool:slurm:Configuration", _CONFIGURATION, **changed)
    assert found == dict.fromkeys(changed, replaces)


def test_images_are_replaced_for_their_digest_alone_and_the_old_one_goes_last() -> None:
    old = {"recipe": "/a", "playbooks": "/b", "digest": "aa"}
    token = "tidepool:image:Image"
    assert _changes(token, old, recipe="/c") == {"recipe": False}
    assert _changes(token, old, digest="bb") == {"digest": True}
    assert not _KINDS.of(token).resource.delete_first


def test_what_was_left_out_and_is_there_is_new() -> None:
    (change,) = _KINDS.of("tidepool:local:Machine").diff(_MACHINE, {**_MACHINE, "aliases": ["head"]})
    assert (change.is_new, change.is_gone) == (True, False)
    (change,) = _KINDS.of("tidepool:local:Machine").diff({**_MACHINE, "aliases": ["head"]}, _MACHINE)
    assert (change.is_new, change.is_gone) == (False, True)
