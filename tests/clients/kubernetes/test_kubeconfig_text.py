"""Kubeconfigs that Tidepool writes: read by whoever reads kubeconfigs, from any folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tidepool.clients.kubernetes.kubeconfig import read_kubeconfig
from tidepool.clients.kubernetes.kubeconfig_text import kubeconfig_text, note_of, noted

PEM = st.text(st.characters(codec="ascii", exclude_categories=["Cs"]), min_size=1, max_size=200)
NOTES = st.dictionaries(st.text(max_size=5), st.none() | st.text(max_size=5), max_size=3)
PERSONS = """\
apiVersion: v1
kind: Config
current-context: work
contexts:
- {name: work, context: {cluster: here, user: she}}
clusters:
- name: here
  cluster: {server: "https://10.0.0.1:6443", certificate-authority: pki/ca.crt}
users:
- name: she
  user:
    client-certificate: she.crt
    client-key: /etc/keys/she.key
- name: program
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1, command: ./login, args: [--now]}
- name: other-program
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1, command: login}
extensions:
- {name: editor, extension: {colour: red}}
"""


@given(PEM, PEM, PEM)
def test_what_is_written_is_what_is_read(authority: str, certificate: str, key: str) -> None:
    text = kubeconfig_text("https://10.77.0.6:6443", authority, certificate, key)
    read = read_kubeconfig(text)
    assert (read.host, read.port, read.authority) == ("10.77.0.6", 6443, authority)
    credential = read.credential(1)
    assert (credential.certificate, credential.key) == (certificate, key)
    assert yaml.safe_load(text) == json.loads(text)


@given(NOTES, NOTES)
def test_the_last_note_is_told_and_changes_nothing_else(
    first: dict[str, str], second: dict[str, str]
) -> None:
    text = kubeconfig_text("https://a:1", "A", "B", "C")
    once = noted(text, Path("/"), first)
    assert note_of(once) == first
    again = noted(once, Path("/elsewhere"), second)
    assert note_of(again) == second
    read, before = read_kubeconfig(again), read_kubeconfig(text)
    assert (read.where, read.user, read.cluster) == (before.where, before.user, before.cluster)
    # Maps come in any order, and a file is compared by its text.
    assert noted(text, Path("/"), dict(reversed(second.items()))) == noted(text, Path("/"), second)


def test_a_person_s_is_fit_to_be_read_from_any_folder() -> None:
    kept = json.loads(noted(PERSONS, Path("/home/she/.kube"), {"machine": None}))
    assert kept["clusters"][0]["cluster"]["certificate-authority"] == "/home/she/.kube/pki/ca.crt"
    users = {each["name"]: each["user"] for each in kept["users"]}
    assert users["she"] == {
        "client-certificate": "/home/she/.kube/she.crt",
        "client-key": "/etc/keys/she.key",
    }
    assert users["program"]["exec"]["command"] == "/home/she/.kube/login"
    assert users["other-program"]["exec"]["command"] == "login"
    assert [each["name"] for each in kept["extensions"]] == ["editor", "tidepool"]
    assert kept["current-context"] == "work"


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "a: [", PERSONS, '{"extensions": {}}', '{"extensions": ["x"]}']
)
def test_what_has_no_note_says_so(text: str) -> None:
    with pytest.raises(ValueError, match=r"kubeconfig|YAML|Expecting|property"):
        note_of(text)
