"""Ways to a Kubernetes, as far as it goes without one: what is refused before anything is made, and what is kept."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.provider.calls import Calls, plainly
from tests.simulation.kubernetes.fake import FakeKubernetes
from tidepool.clients.kubernetes.kubeconfig_text import kubeconfig_text
from tidepool.clients.kubernetes.objects import Right
from tidepool.infrastructures.kubernetes_access import Access, NoAccess, access_path, dialer, load_access
from tidepool.provider import certificates as pki
from tidepool.provider.kinds import TOKENS
from tidepool.resources.kind import Refusal
from tidepool.resources.values import UNKNOWN, has_secret, property_value

TOKEN = "tidepool:kubernetes:Access"
MACHINE = {"kind": "local", "stack": "dev", "machine": "kube"}


@pytest.fixture
def ways(tmp_path: Path) -> Calls:
    return Calls(tmp_path / "data", TOKEN)


@pytest.fixture(scope="module")
def text() -> str:
    """A kubeconfig of a server that is not there: its port is bound, and nothing listens."""
    from datetime import UTC, datetime

    authority = pki.authority("it", 1, datetime.now(UTC))
    client = pki.signed(pki.Subject("she", usages=("client",)), authority, 1, datetime.now(UTC))
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    return kubeconfig_text(f"https://127.0.0.1:{port}", authority.certificate, client.certificate, client.key)


def wanted(**changes: Any) -> dict[str, Any]:
    given = {"stack": "dev", "access": "kubernetes", **changes}
    return {key: value for key, value in given.items() if value is not None}


def test_one_that_nobody_checks_is_kept_for_root_alone_and_taken_away(
    ways: Calls, text: str, tmp_path: Path
) -> None:
    secret = property_value(text, secret=True)
    inputs = ways.checked(wanted(kubeconfig=secret, machine=MACHINE, checked=False))
    made = ways.create(inputs)
    assert has_secret(made.properties["kubeconfig"])
    told = plainly(made.properties)
    assert told["server"].startswith("https://127.0.0.1:")
    assert "CERTIFICATE" in told["authorityCertificate"]
    path = access_path(tmp_path / "data", "dev", "kubernetes")
    assert path.stat().st_mode & 0o777 == 0o600
    kept = load_access(tmp_path / "data", "dev", "kubernetes")
    assert kept.machine == MACHINE
    assert "PRIVATE" not in repr(kept)
    assert ways.read("dev/kubernetes", made.properties, inputs).resource_id == "dev/kubernetes"
    path.write_text(path.read_text().replace("127.0.0.1", "127.0.0.2"))
    assert not ways.read("dev/kubernetes", made.properties, inputs).resource_id
    path.write_text("half of")
    assert not ways.read("dev/kubernetes", made.properties, inputs).resource_id
    ways.delete("dev/kubernetes", made.properties)
    ways.delete("dev/kubernetes", made.properties)
    assert not (tmp_path / "data").exists() or list((tmp_path / "data").iterdir()) == []
    with pytest.raises(
        NoAccess, match=r"there is no access kubernetes .*is missing.*`tidepool up` writes it"
    ):
        load_access(tmp_path / "data", "dev", "kubernetes")


def test_mistakes_are_told_by_property(ways: Calls, text: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    for inputs, key, said in (
        (wanted(), "kubeconfig", "either kubeconfig or path is wanted"),
        (wanted(kubeconfig=text, path=str(path)), "kubeconfig", "either kubeconfig or path"),
        (wanted(path="config"), "path", "an absolute path is wanted"),
        (wanted(path=str(path)), "path", f"{path} cannot be read"),
        (wanted(kubeconfig="a: ["), "kubeconfig", "no YAML"),
        (wanted(kubeconfig="a: b"), "kubeconfig", "no current-context"),
        (wanted(kubeconfig=text, machine={"kind": "moon"}), "machine", "no connection"),
        (wanted(kubeconfig=text, access="../x"), "access", "'../x'"),
    ):
        found = ways.failures(inputs)
        assert list(found) == [key], inputs
        assert said in found[key]


def test_an_api_that_is_not_there_is_refused_before_anything_is_kept(
    ways: Calls, text: str, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    (said,) = ways.failures(wanted(path=str(path))).values()
    assert "does not answer" in said
    assert "nothing was changed" in said
    with pytest.raises(Refusal, match="nothing was changed"):
        ways.create(wanted(kubeconfig=text))
    with pytest.raises(Refusal, match=r"machine kube of stack dev (is not running|does not exist)"):
        ways.create(wanted(kubeconfig=text, machine=MACHINE))
    assert not (tmp_path / "data").exists()


def test_rights_that_were_given_a_moment_ago_are_waited_for(
    ways: Calls, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server hears of its own bindings by a watch."""
    kubernetes = FakeKubernetes()
    late, looks = Right("create", "pods/eviction"), list[int]()

    @contextmanager
    def client(_access: Access, _data: Path) -> Iterator[FakeKubernetes]:
        yield kubernetes

    def missing(*_: object) -> tuple[Right, ...]:
        looks.append(1)
        return (late,) if len(looks) < 3 else ()

    monkeypatch.setattr(Access, "client", client)
    monkeypatch.setattr(FakeKubernetes, "missing_rights", missing)
    ways.create(ways.checked(wanted(kubeconfig=text)))
    assert len(looks) == 3


def test_one_that_is_kept_is_not_asked_again_and_another_text_is_another_digest(
    ways: Calls, text: str, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    unchecked = wanted(path=str(path), checked=False)
    first = ways.checked(unchecked)
    ways.create(first)
    assert ways.failures(wanted(path=str(path))) == {}
    path.write_text(text.replace("127.0.0.1", "127.0.0.2"))
    assert list(ways.failures(wanted(path=str(path)))) == ["path"]
    second = ways.checked(unchecked)
    assert ways.diff(first, second).diffs == ["digest"]
    # What stands in the state is what was written: no key of hers.
    assert "client-key-data" not in json.dumps(plainly(first))


def test_a_look_at_an_api_that_does_not_answer_changes_nothing(ways: Calls, text: str) -> None:
    inputs = ways.checked(wanted(kubeconfig=text, checked=False))
    made = ways.create(inputs)
    state = {**made.properties, "checked": property_value(True)}
    assert plainly(ways.read("dev/kubernetes", state, state).inputs)["state"] == "allowed"


def test_what_is_known_of_one_is_told_in_previews(ways: Calls, text: str) -> None:
    known = plainly(ways.create(wanted(kubeconfig=text), preview=True).properties)
    assert known["server"].startswith("https://127.0.0.1:")
    unknown = plainly(ways.create(wanted(kubeconfig=UNKNOWN), preview=True).properties)
    assert "server" not in unknown


def test_a_connection_that_is_none_leads_nowhere(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="known kinds are: local"):
        dialer({"kind": "moon"}, tmp_path)


def test_the_kinds_are_there() -> None:
    assert {TOKEN, "tidepool:kubernetes:ControlPlane"} <= TOKENS


def test_mistakes_of_a_control_plane(tmp_path: Path) -> None:
    planes = Calls(tmp_path, "tidepool:kubernetes:ControlPlane")
    given = {"stack": "dev", "access": "a", "machine": MACHINE, "boot": "kube", "digest": "1"}
    assert planes.failures(given) == {}
    assert set(planes.failures({**given, "machine": {"kind": "moon"}})) == {"machine"}
    with pytest.raises(Refusal, match="machine kube of stack dev is not there"):
        planes.create(given)
    read = planes.read("dev/kube", {**given, "state": "working"}, {**given, "state": "working"})
    assert "there is no access a" in plainly(read.inputs)["state"]
