"""Watches of a real API server: all that there is, what changes, and what a watch that broke off did not see."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests import versions
from tests.clients.kubernetes.real import RealKubernetes, shared
from tidepool import toolchain
from tidepool.clients.kubernetes.exchange import Exchange
from tidepool.clients.kubernetes.kubeconfig import read_kubeconfig
from tidepool.lab.errors import SchedulerFailed
from tidepool.lab.schedulers.kubernetes.api import Api
from tidepool.lab.schedulers.kubernetes.watch import Change, Watch

pytestmark = [pytest.mark.slow, pytest.mark.runs("local", versions.built(toolchain.KUBERNETES))]

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def api() -> Iterator[Api]:
    real: RealKubernetes = shared()
    made = Api(Exchange(read_kubeconfig(real.admin_kubeconfig)))
    yield made
    for thing in made.get(MAPS)["items"]:
        made.delete(f"{MAPS}/{thing['metadata']['name']}")
    made.close()


def a_map(name: str, value: str = "") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}}


def seen(changes: Iterator[Change] | Any) -> list[tuple[str, str, bool]]:
    """Names, values, and whether they are gone; of those of the tests."""
    told = []
    for change in changes:
        name = change.thing["metadata"]["name"]
        if not name.startswith("kube-"):
            told.append((name, change.thing.get("data", {}).get("value", ""), change.is_gone))
    return told


def until(watch: Watch, wanted: list[tuple[str, str, bool]]) -> None:
    found: list[tuple[str, str, bool]] = []
    deadline = time.monotonic() + 20
    while found != wanted:
        assert time.monotonic() < deadline, found
        found += seen(watch.changes(0.2))


def test_all_that_there_is_comes_first_and_then_each_change_in_its_order(api: Api) -> None:
    api.make(MAPS, a_map("there", "1"))
    watch = Watch(api, [MAPS])
    try:
        assert seen(watch.begin()) == [("there", "1", False)]
        began = time.monotonic()
        assert watch.changes(0.3) == []
        assert time.monotonic() - began < 5
        api.make(MAPS, a_map("new", "1"))
        api.put(MAPS, a_map("new", "2"))
        api.delete(f"{MAPS}/there")
        until(watch, [("new", "1", False), ("new", "2", False), ("there", "1", True)])
    finally:
        watch.close()
    assert not [each for each in threading.enumerate() if each.name.startswith("watch ")]


def test_one_that_breaks_off_goes_on_where_it_was(api: Api) -> None:
    watch = Watch(api, [MAPS])
    try:
        watch.begin()
        api.make(MAPS, a_map("before"))
        until(watch, [("before", "", False)])
        for stream in watch.streams():
            stream.end()
        api.make(MAPS, a_map("meanwhile"))
        until(watch, [("meanwhile", "", False)])
    finally:
        watch.close()


def test_what_is_refused_is_told_in_the_servers_words(api: Api) -> None:
    with pytest.raises(SchedulerFailed, match="the server could not find the requested resource"):
        Watch(api, ["/api/v1/namespaces/default/things"]).begin()
    api.make(MAPS, a_map("twice"))
    with pytest.raises(SchedulerFailed, match="already exists"):
        api.make(MAPS, a_map("twice"))
    # What is not there is as it is wanted.
    api.delete(f"{MAPS}/none")
