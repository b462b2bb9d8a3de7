"""`tidepool kubectl`: which program is run, where, and with what."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.standins import Person, person
from tidepool.cli import errors
from tidepool.clients.kubernetes.kubeconfig_text import kubeconfig_text
from tidepool.infrastructures.kubernetes_access import Access, access_path

TEXT = kubeconfig_text("https://10.0.0.1:6443", "A", "B", "THE KEY")


class Ran(Exception):
    """In place of a process that becomes another program."""

    def __init__(self, path: str, argv: Sequence[str], env: Mapping[str, str]) -> None:
        self.path, self.argv, self.env = path, list(argv), env


@pytest.fixture
def she(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    """Root, on a machine with a kubectl."""

    def execve(path: str, argv: Sequence[str], env: Mapping[str, str]) -> None:
        raise Ran(path, argv, env)

    monkeypatch.setattr(os, "execve", execve)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "kubectl").write_text("#!/bin/sh\n")
    (programs / "kubectl").chmod(0o755)
    made = person(tmp_path / "project", tmp_path / "data")
    env = {**made.context.env, "PATH": str(programs), "KUBECONFIG": "/home/she/.kube/config"}
    made.context = replace(made.context, env=env, root=True)
    return made


def keep(she: Person, name: str, machine: Mapping[str, str] | None = None) -> Path:
    path = access_path(she.context.data, "dev", name)
    Access.of(TEXT, Path("/"), machine).save(path)
    return path


def ran(she: Person, *words: str) -> Ran:
    result = she.runs("kubectl", *words)
    assert isinstance(result.exception, Ran), result.output
    return result.exception


def test_it_is_the_kubectl_of_this_machine_with_a_file_for_root_alone(she: Person) -> None:
    path = keep(she, "kubernetes")
    done = ran(she, "get", "pods", "--namespace", "web", "-o", "wide")
    assert done.argv == [
        f"{she.context.env['PATH']}/kubectl",
        "get",
        "pods",
        "--namespace",
        "web",
        "-o",
        "wide",
    ]
    assert done.path == done.argv[0]
    assert done.env["KUBECONFIG"] == str(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert "THE KEY" not in str(done.argv) + str(done.env)
    assert ran(she, "--", "--stack", "x").argv[1:] == ["--stack", "x"]


def test_a_person_may_do_everything_where_the_kubernetes_is_the_cluster_s_own(she: Person) -> None:
    keep(she, "kubernetes")
    admin = keep(she, "kubernetes-admin")
    assert ran(she, "version").env["KUBECONFIG"] == str(admin)


def test_without_a_kubernetes_it_says_what_makes_one(she: Person) -> None:
    done = she.runs("kubectl", "version")
    assert done.exit_code == errors.EXEC_FAILED
    assert "there is no access kubernetes to Kubernetes in stack dev" in done.output


def test_without_kubectl_it_says_so(she: Person) -> None:
    path = keep(she, "kubernetes")
    (Path(she.context.env["PATH"]) / "kubectl").unlink()
    done = she.runs("kubectl", "version")
    assert done.exit_code == errors.EXEC_FAILED
    assert "kubectl is not on PATH" in done.output
    assert str(path) in done.output


def test_a_machine_that_does_not_run_is_told(she: Person) -> None:
    keep(she, "kubernetes", {"kind": "local", "stack": "dev", "machine": "kube"})
    done = she.runs("kubectl", "version")
    assert done.exit_code == errors.EXEC_FAILED
    assert "machine kube of stack dev" in done.output


def test_only_root_reads_the_key(she: Person) -> None:
    keep(she, "kubernetes")
    done = she.runs("kubectl", "version", root=False)
    assert done.exit_code == errors.EXEC_FAILED
    assert "run it with sudo" in done.output
