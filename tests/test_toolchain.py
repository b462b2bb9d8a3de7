"""The toolchain: a stand-in for Go where it is about who builds and what is kept; the tools themselves where they are built."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.toolchain import built_tools, kubernetes_tools
from tidepool.toolchain import (
    KUBERNETES,
    KWOK,
    MODULES,
    NOMAD,
    PULUMI,
    VOLCANO,
    BuildFailed,
    CannotBuild,
    Module,
    ToolchainMissing,
    build,
    find,
    read_source,
)
from tidepool.toolchain.__main__ import main

#: Writes down what it is called for, and "compiles" the name of the package.
FAKE_GO = """#!/usr/bin/env bash
if [[ $1 == env ]]; then echo "${GO_IS:-go1.26.1}"; exit 0; fi
if [[ $1 == list ]]; then echo "$MODULES/${@: -1}"; exit 0; fi
echo "$CGO_ENABLED $*" >>"$CALLS"
while [[ $1 != -o ]]; do shift; done
if [[ $3 == *"${STOPS_AT:-nothing}" ]]; then touch "$CALLS.stopped"; sleep 600; fi
if [[ $3 == *"${FAILS_AT:-nothing}" ]]; then echo "go: downloading things"; echo "$GO_SAYS" >&2; exit 1; fi
printf '#!/bin/sh\\necho %s\\n' "$3" >"$2"
chmod +x "$2"
"""


class Builder:
    """A module of its own, a cache, and a Go."""

    def __init__(self, path: Path, module: Module = KUBERNETES) -> None:
        self.module = dataclasses.replace(module, folder=path / "module")
        shutil.copytree(module.folder, self.module.folder)
        programs = path / "programs"
        programs.mkdir()
        (programs / "go").write_text(FAKE_GO)
        (programs / "go").chmod(0o755)
        self.calls = path / "calls"
        self.calls.touch()
        self.cache = path / "cache"
        self.environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "XDG_CACHE_HOME": str(self.cache),
            "CALLS": str(self.calls),
        }
        self.said: list[str] = []

    def build(self, **environment: str) -> Path:
        return build(self.environment | environment, self.module, say=self.said.append).folder

    def left(self) -> list[str]:
        """What is in the cache beside locks, without the digests."""
        names = (path.name.partition(".") for path in (self.cache / "tidepool/toolchain").iterdir())
        return sorted(end for _, _, end in names if end != "lock")

    def process(self, **environment: str) -> subprocess.Popen[str]:
        """A builder of the repository's own module, with the stand-in for Go."""
        return subprocess.Popen(
            [sys.executable, "-m", "tidepool.toolchain", "build", "kubernetes"],
            env=os.environ | self.environment | {"TIDEPOOL_TOOLCHAIN": "", **environment},
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    return Builder(tmp_path)


@pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)
def test_the_module_has_the_tools_that_are_built(module: Module) -> None:
    written = (module.folder / "go.mod").read_text()
    tools = re.findall(r"(?m)^(?:tool |\t)(\S+/\S+)$", written)
    ours = [package for package in module.tools.values() if package.startswith("./")]
    files = [package for package in module.tools.values() if ":" in package]
    assert sorted([*tools, *ours, *files]) == sorted(module.tools.values())
    for package in ours:
        assert list((module.folder / package).glob("*.go"))
    for file in files:
        assert f"\t{file.partition(':')[0]} v" in written


CHANGES: dict[str, tuple[bool, Callable[[Path], object]]] = {
    "go.mod": (True, lambda m: (m / "go.mod").write_text((m / "go.mod").read_text() + "\n")),
    "go.sum": (True, lambda m: (m / "go.sum").write_text((m / "go.sum").read_text() + "\n")),
    "our Go": (True, lambda m: (m / "pause/main.go").write_text("package main\n")),
    "another file of Go": (True, lambda m: (m / "pause/more.go").write_text("package main\n")),
    "the place": (False, lambda m: m.rename(m.with_name("elsewhere")).rename(m)),
    "when it was written": (False, lambda m: os.utime(m / "go.sum", (0, 0))),
    "a page": (False, lambda m: (m / "README.md").touch()),
}


@pytest.mark.parametrize("what", CHANGES)
def test_the_digest_changes_with_what_is_built_and_nothing_else(builder: Builder, what: str) -> None:
    matters, change = CHANGES[what]
    before = read_source(builder.module).digest
    change(builder.module.folder)
    assert (read_source(builder.module).digest != before) == matters


def test_what_is_built_is_whole_and_found_and_not_built_again(builder: Builder) -> None:
    with pytest.raises(ToolchainMissing, match=r"there is no /.*`make kubernetes` builds it"):
        find(builder.environment, builder.module)
    folder = builder.build()
    calls = builder.calls.read_text().splitlines()
    assert [call.split()[-1] for call in calls] == list(KUBERNETES.tools.values())
    assert all(call.startswith("0 build -trimpath -buildvcs=false -mod=readonly ") for call in calls)
    assert "gitVersion=v1.36.3" in calls[list(KUBERNETES.tools).index("kubelet")]
    assert len(builder.said) == len(KUBERNETES.tools) + 1
    assert folder.name == read_source(builder.module).digest
    assert find(builder.environment, builder.module).version == "1.36.3"
    assert builder.left() == [""]
    assert builder.build() == folder
    assert len(builder.calls.read_text().splitlines()) == len(KUBERNETES.tools)
    assert len(builder.said) == len(KUBERNETES.tools) + 1


def test_a_module_is_built_with_its_tags(tmp_path: Path) -> None:
    builder = Builder(tmp_path, NOMAD)
    builder.build()
    assert " -tags hashicorpmetrics " in builder.calls.read_text()
    before = read_source(builder.module).digest
    assert read_source(dataclasses.replace(builder.module, tags="")).digest != before


def test_files_that_a_module_has_ready_are_taken_out_of_it(tmp_path: Path) -> None:
    builder = Builder(tmp_path, PULUMI)
    files = {tool: origin for tool, origin in PULUMI.tools.items() if ":" in origin}
    for tool, origin in files.items():
        file = tmp_path / "modules" / origin.replace(":", "/")
        file.parent.mkdir(parents=True)
        file.write_text(tool)
        file.chmod(0o444)
    folder = builder.build(MODULES=str(tmp_path / "modules"))
    assert all((folder / tool).read_text() == tool and os.access(folder / tool, os.X_OK) for tool in files)
    (call,) = builder.calls.read_text().splitlines()
    assert "-X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=v3.255.0" in call
    assert (
        find(builder.environment | {"TIDEPOOL_TOOLCHAIN": "/no/where"}, builder.module).version == "3.255.0"
    )


def test_one_that_is_not_whole_is_no_toolchain_and_is_built_again(builder: Builder) -> None:
    folder = builder.build()
    (folder / "etcd").unlink()
    (folder / "kubelet").chmod(0o644)
    with pytest.raises(ToolchainMissing, match="has no etcd, kubelet"):
        find(builder.environment, builder.module)
    assert builder.build() == folder
    assert (folder / "etcd").exists()


def test_a_folder_that_is_named_is_taken_and_what_it_lacks_is_told(builder: Builder, tmp_path: Path) -> None:
    named = builder.build().rename(tmp_path / "named")
    environment = builder.environment | {"TIDEPOOL_TOOLCHAIN": str(named)}
    nowhere = dataclasses.replace(KUBERNETES, folder=tmp_path / "no module")
    tools = find(environment, nowhere)
    assert tools.path("kubelet") == named / "kubelet"
    before = tools.tool("kubelet")
    assert tools.tool("kubelet") == before
    (named / "kubelet").write_text("another")
    assert tools.tool("kubelet").sha256 != before.sha256
    with pytest.raises(ValueError, match="kubeadm is no tool: there are etcd, "):
        tools.path("kubeadm")
    (named / "pause").unlink()
    with pytest.raises(
        ToolchainMissing, match="TIDEPOOL_TOOLCHAIN names, has no program pause: unset TIDEPOOL_TOOLCHAIN"
    ):
        find(environment, nowhere)
    with pytest.raises(ToolchainMissing, match="from which the tools are built"):
        find(builder.environment, nowhere)


NOT_FETCHED = 'go: k8s.io/kubernetes@v1.36.3: Get "https://proxy.test/k8s.io": dial tcp: lookup proxy.test: no such host'


def test_what_cannot_be_built_here_is_told_and_is_no_failure_where_that_is_said(
    builder: Builder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cases: list[tuple[dict[str, str], str]] = [
        ({"PATH": "/no/where"}, "there is no Go on PATH: Kubernetes 1.36.3 is built with Go 1.26 or newer"),
        ({"GO_IS": "go1.19.8"}, "says go1.19.8: Kubernetes 1.36.3 is built with Go 1.26 or newer"),
        ({"FAILS_AT": "kubelet", "GO_SAYS": NOT_FETCHED}, "the modules of kubelet cannot be fetched: `go env GOPROXY`"),
    ]  # fmt: skip
    for changes, told in cases:
        with pytest.raises(CannotBuild, match=re.escape(told)):
            builder.build(**changes)
        with monkeypatch.context() as patch:
            for name, value in (builder.environment | changes).items():
                patch.setenv(name, value)
            assert main(["build", "kubernetes"]) == 1
            assert main(["build", "kubernetes", "--where-possible"]) == 0
        assert capsys.readouterr().err.count(told) == 2


def test_a_build_that_fails_leaves_its_log_and_nothing_that_is_whole(builder: Builder) -> None:
    with pytest.raises(
        BuildFailed, match=r"(?s)building kubelet failed\. All .*\.log, which ends:\n  no such function"
    ):
        builder.build(FAILS_AT="kubelet", GO_SAYS="no such function")
    with pytest.raises(BuildFailed, match="failed: the disk is full"):
        builder.build(FAILS_AT="kubelet", GO_SAYS="write: no space left on device")
    with pytest.raises(BuildFailed, match=r"other bytes than go\.sum has"):
        builder.build(FAILS_AT="kubelet", GO_SAYS="verifying module: checksum mismatch")
    assert builder.left() == ["log"]
    builder.build()
    assert builder.left() == [""]


def test_a_cache_that_cannot_be_written_is_told(builder: Builder) -> None:
    builder.cache.write_text("a file")
    with pytest.raises(BuildFailed, match="Not a directory; XDG_CACHE_HOME names another cache"):
        builder.build()


def test_of_two_builders_the_second_waits_and_a_killed_one_is_followed_when_the_last_of_it_is_gone(
    builder: Builder,
) -> None:
    first = builder.process(STOPS_AT="kube-scheduler")
    try:
        stopped = builder.calls.with_name("calls.stopped")
        deadline = time.monotonic() + 30
        while not stopped.exists():
            assert time.monotonic() < deadline
            assert first.poll() is None
            time.sleep(0.01)
        with builder.process() as second:
            assert second.stderr is not None
            assert second.stderr.readline() == "kubernetes: another builds it; waiting for that\n"
            first.kill()  # Go goes on, and with it the lock
            with pytest.raises(subprocess.TimeoutExpired):
                second.wait(0.5)
            calls = len(builder.calls.read_text().splitlines())
            os.killpg(first.pid, signal.SIGKILL)
            assert second.wait(30) == 0
            assert len(builder.calls.read_text().splitlines()) == calls + len(KUBERNETES.tools)
    finally:
        if first.poll() is None:
            os.killpg(first.pid, signal.SIGKILL)
        first.communicate()
    assert builder.left() == [""]


# The tools themselves


@pytest.mark.slow
@pytest.mark.parametrize("tool", sorted(name for name in KUBERNETES.tools if name.startswith("kube")))
def test_a_tool_says_the_version_that_it_is_built_from(tool: str) -> None:
    program = kubernetes_tools().path(tool)
    said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    assert said == f"Kubernetes v{read_source().version}\n"


@pytest.mark.slow
def test_nomad_says_the_version_that_it_is_built_from() -> None:
    said = subprocess.run(
        [built_tools(NOMAD).path("nomad"), "version"], check=True, capture_output=True, text=True
    ).stdout
    assert said == f"Nomad v{read_source(NOMAD).version}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "tool"),
    [(VOLCANO, "vc-scheduler"), (VOLCANO, "vc-controllers"), (KWOK, "kwok")],
    ids=["vc-scheduler", "vc-controllers", "kwok"],
)
def test_what_a_laboratory_adds_says_the_version_that_it_is_built_from(module: Module, tool: str) -> None:
    said = subprocess.run(
        [built_tools(module).path(tool), "--version"], check=True, capture_output=True, text=True
    ).stdout
    assert f"v{read_source(module).version}" in said.split()


@pytest.mark.slow
def test_pause_reaps_those_that_others_leave_and_ends_when_it_is_told_to() -> None:
    if os.geteuid() != 0:
        pytest.skip("a process namespace needs root: run the tests with sudo")
    pause = kubernetes_tools().path("pause")
    # The shell's last command takes its place, and with it its child, which ends later.
    script = f"sleep 0.2 & exec {pause}"
    command = ["unshare", "--pid", "--fork", "--kill-child=KILL", "--", "sh", "-c", script]
    with subprocess.Popen(command) as outside:
        children = Path(f"/proc/{outside.pid}/task/{outside.pid}/children")
        _eventually(lambda: children.read_text().split() != [])
        inside = int(children.read_text())
        _eventually(lambda: Path(f"/proc/{inside}/comm").read_text() == "pause\n")
        _eventually(lambda: Path(f"/proc/{inside}/task/{inside}/children").read_text() == "")
        assert outside.poll() is None
        os.kill(inside, signal.SIGTERM)
        assert outside.wait(10) == 0


def _eventually(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)
