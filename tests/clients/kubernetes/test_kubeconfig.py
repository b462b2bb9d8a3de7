"""Kubeconfigs: what is read, what is refused and why, and credentials that change."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.clients.kubernetes.pki import Authority
from tests.clients.kubernetes.real import kubeconfig
from tests.clients.kubernetes.scripted import Scripted, answer, said
from tidepool.clients.kubernetes.client import connect
from tidepool.clients.kubernetes.contract import Unauthorized, Unreachable
from tidepool.clients.kubernetes.kubeconfig import read_kubeconfig

AUTHORITY = Authority.made()
PEM = AUTHORITY.pair.certificate


def config(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> str:
    """A kubeconfig with another cluster's or user's words."""
    read = json.loads(kubeconfig(6443, PEM, token="t"))
    read["clusters"][0]["cluster"].update(cluster or {})
    if user is not None:
        read["users"][0]["user"] = user
    return json.dumps(read)


def test_where_it_is_and_who_asks() -> None:
    pair = AUTHORITY.sign("someone")
    access = read_kubeconfig(kubeconfig(6443, PEM, pair))
    assert (access.host, access.port, access.prefix, access.server_name) == (
        "127.0.0.1",
        6443,
        "",
        "127.0.0.1",
    )
    assert access.authority == PEM
    credential = access.credential(1)
    assert (credential.certificate, credential.key) == (pair.certificate, pair.key)
    assert pair.key not in repr(credential)
    assert base64.b64encode(pair.key.encode()).decode() not in repr(access)


def test_a_server_behind_a_path_and_of_another_name() -> None:
    access = read_kubeconfig(
        config({"server": "https://[fd00::1]/k8s/c-1/", "tls-server-name": "kube.example"})
    )
    assert (access.host, access.port, access.prefix, access.server_name) == (
        "fd00::1",
        443,
        "/k8s/c-1",
        "kube.example",
    )
    assert access.where == "the API server at [fd00::1]:443"


def test_files_beside_it_are_read(tmp_path: Path) -> None:
    pair = AUTHORITY.sign("someone")
    (tmp_path / "ca.crt").write_text(PEM)
    (tmp_path / "me.crt").write_text(pair.certificate)
    (tmp_path / "me.key").write_text(pair.key)
    text = config(
        {"certificate-authority": "ca.crt", "certificate-authority-data": None},
        {"client-certificate": "me.crt", "client-key": "me.key"},
    )
    access = read_kubeconfig(text, tmp_path)
    assert access.authority == PEM
    assert access.credential(1).key == pair.key


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no mapping"),
        ("[]", "no mapping"),
        ("a: [", "no YAML in line"),
        ("{}", "no current-context"),
        ("current-context: x", "no context 'x'"),
        (config({"server": ""}), "only https://HOST:PORT is"),
        (config({"server": "http://127.0.0.1:6443"}), "only https://HOST:PORT is"),
        (config({"server": "https://a:b"}), "is no URL"),
        (config({"insecure-skip-tls-verify": True}), "anybody can be the API server"),
        (config({"proxy-url": "http://proxy"}), "proxy-url"),
        (config({"certificate-authority-data": "?"}), "no base64"),
        (config({"certificate-authority-data": None, "certificate-authority": "no/such"}), "cannot be read"),
        (config(user={"username": "me", "password": "s3cret"}), "password, username, which is not used here"),
        (config(user={"auth-provider": {"name": "oidc"}}), "auth-provider"),
        (config(user={"token": "t", "as": "root"}), "nobody is impersonated"),
    ],
)
def test_what_leads_nowhere_safe_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        connect(text)
    assert "s3cret" not in str(refused.value)


def test_a_certificate_that_is_none_is_said(tmp_path: Path) -> None:
    server = Scripted(tmp_path, said(answer(200, {"gitVersion": "v1"})))
    with connect(kubeconfig(server.port, "no certificate", token="t")) as client, pytest.raises(Unreachable):
        client.version()
    one, other = AUTHORITY.sign("one"), AUTHORITY.sign("other")
    mixed = type(one)(one.certificate, other.key)
    text = kubeconfig(server.port, server.authority.pair.certificate, mixed)
    with connect(text) as client, pytest.raises(Unauthorized, match="do not fit"):
        client.version()
    server.close()


def bearers(server: Scripted) -> list[str]:
    return [line.removeprefix("Authorization: Bearer ") for line in server.headers if "Bearer" in line]


def test_a_token_of_a_file_is_read_again_when_it_may_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidepool.clients.kubernetes.kubeconfig._EARLY", timedelta(0))
    server = Scripted(tmp_path, said(answer(200, {"gitVersion": "v1"})))
    (tmp_path / "token").write_text("first\n")
    read = json.loads(server.kubeconfig())
    read["users"][0]["user"] = {"tokenFile": "token"}
    with connect(json.dumps(read), folder=tmp_path) as client:
        client.version()
        (tmp_path / "token").write_text("second\n")
        client.version()
        (tmp_path / "token").unlink()
        with pytest.raises(Unauthorized, match="no credential"):
            client.version()
    assert bearers(server) == ["first", "second"]
    server.close()


def program(folder: Path, body: str) -> dict[str, Any]:
    """A user whose credential comes from a program: Python, with ``folder`` as its own."""
    path = folder / "credential"
    path.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    command = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(path),
        "interactiveMode": "Never",
    }
    return {"exec": command}


SAYS = """
count = len(open("calls").read()) if os.path.exists("calls") else 0
open("calls", "a").write("x")
status = {"token": f"token-{count}", "expirationTimestamp": %r}
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))
"""


@pytest.mark.parametrize(("lasts", "calls"), [(timedelta(hours=1), 1), (timedelta(seconds=30), 2)])
def test_a_program_is_asked_for_a_credential_as_often_as_it_ends(
    tmp_path: Path, lasts: timedelta, calls: int
) -> None:
    server = Scripted(tmp_path, said(answer(200, {"gitVersion": "v1"})))
    read = json.loads(server.kubeconfig())
    until = (datetime.now(UTC) + lasts).strftime("%Y-%m-%dT%H:%M:%SZ")
    read["users"][0]["user"] = program(tmp_path, SAYS % until)
    with connect(json.dumps(read), folder=tmp_path, timeout_s=20) as client:
        client.version()
        client.version()
    assert bearers(server) == ["token-0", "token-0" if calls == 1 else "token-1"]
    server.close()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("sys.exit('log in first')", "log in first"),
        ("print('hello')", "failed to decode"),
        ("open('pid', 'w').write(str(os.getpid())); time.sleep(60)", r"none within \d.* s"),
        (
            "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential', 'status': {}}))",
            "neither a token nor a certificate",
        ),
    ],
)
def test_a_program_that_gives_none_is_an_error_of_its_own(tmp_path: Path, body: str, words: str) -> None:
    text = config(user=program(tmp_path, body))
    timeout_s = 3 if "sleep" in body else 30
    with (
        connect(text, folder=tmp_path, timeout_s=timeout_s) as client,
        pytest.raises(Unauthorized, match=words),
    ):
        client.version()
    if (tmp_path / "pid").exists():
        # Its parent was waited for; it was killed at the same moment, and may need another one to end.
        process = Path("/proc", (tmp_path / "pid").read_text(), "stat")
        deadline = time.monotonic() + 10
        while not _has_ended(process):
            assert time.monotonic() < deadline, process.read_text()
            time.sleep(0.01)


def _has_ended(stat: Path) -> bool:
    try:
        return stat.read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_the_key_is_in_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this process: neither in a folder for temporary files, nor left open."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    server = Scripted(tmp_path, said(answer(200, {"gitVersion": "v1"})))
    pair = AUTHORITY.sign("someone")
    before = set(tmp_path.iterdir())
    with connect(kubeconfig(server.port, server.authority.pair.certificate, pair)) as client:
        client.version()
        files = [os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    assert set(tmp_path.iterdir()) == before
    assert not [name for name in files if "memfd" in name]
    server.close()


def test_what_most_kubeconfigs_need_does_not_import_the_library() -> None:
    """It takes a quarter of a second of a processor: more than all that a conversion asks."""
    code = (
        "import sys; from tidepool.clients.kubernetes.client import connect; "
        f"connect({kubeconfig(6443, PEM, AUTHORITY.sign('x'))!r}).close(); print('kubernetes' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
