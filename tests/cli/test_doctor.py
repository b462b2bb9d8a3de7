"""What `doctor` finds on this machine, and on worse ones."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.cli.standins import SPEC, Person
from tidepool.cli import doctor, errors
from tidepool.cli.remote_infrastructure import named_infrastructures
from tidepool.cli.stack import find_stack
from tidepool.cluster.failures import Permanent
from tidepool.engine import choice
from tidepool.infrastructures.finding import Finding
from tidepool.infrastructures.local import kernel
from tidepool.infrastructures.local.kernel import Lack
from tidepool.infrastructures.registry import Package, descriptor
from tidepool.toolchain import KUBERNETES


@pytest.fixture(autouse=True)
def lacks(monkeypatch: pytest.MonkeyPatch) -> list[Lack]:
    """What the machine's parts lack; nothing, and root is there."""
    found: list[Lack] = []
    monkeypatch.setattr(kernel, "preflight", lambda _data: tuple(found))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return found


def findings(somebody: Person) -> dict[str, Finding]:
    return {found.what: found for found in doctor.examine(somebody.context)}


def test_all_is_looked_at(somebody: Person) -> None:
    found = findings(somebody)
    assert set(found) == {
        *(command for command, _, _ in doctor.COMMANDS),
        "machines",
        "confinement",
        "data folder",
        "engine",
        "Pulumi CLI",
        "Python",
        "package mirror",
        "Kubernetes",
        "kubelets",
    }
    assert found["machines"].state == "well"
    assert found["engine"].detail == "embedded"
    assert found["Python"].state == "well"


def test_a_missing_program_is_told_with_its_package(somebody: Person, tmp_path: Path) -> None:
    bare = replace(somebody.context, env={**somebody.context.env, "PATH": str(tmp_path)})
    found = {each.what: each for each in doctor.examine(bare)}
    assert found["ip"].state == "lacks"
    assert "apt-get install iproute2" in found["ip"].remedy
    said = somebody.runs("doctor", "--json", env=bare.env)
    assert said.exit_code == errors.LACKS
    assert {each["what"] for each in json.loads(said.output) if each["state"] == "lacks"} >= {"ip", "gcc"}


def test_what_the_kernel_lacks_is_told(somebody: Person, lacks: list[Lack]) -> None:
    lacks.append(Lack("no overlay", "modprobe overlay"))
    said = somebody.runs("doctor")
    assert said.exit_code == errors.LACKS
    assert "modprobe overlay" in said.output
    lacks[:] = [Lack("little memory", "more", fatal=False)]
    assert findings(somebody)["machines"].state in ("note", "well")


def test_without_root_it_says_so_and_tries_nothing(somebody: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    found = findings(somebody)
    assert (found["root"].state, found["root"].remedy) == ("lacks", "sudo tidepool doctor")
    assert "machines" not in found


def test_the_engine_that_cannot_be_is_told(
    somebody: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "BUILT", tmp_path)
    for name in ("pulumi", "other"):
        env = {**somebody.context.env, "TIDEPOOL_ENGINE": name, "PATH": "/nowhere"}
        found = {each.what: each for each in doctor.examine(replace(somebody.context, env=env))}
        assert found["engine"].state == "lacks"
        assert "TIDEPOOL_ENGINE" in found["engine"].detail


CLIS = {
    None: ("note", "not there; the embedded engine does without it"),
    "3.260.1": ("well", "3.260.1, {}"),
    "3.100.0": ("note", "3.100.0, {}: older than 3.255.0, with which this release is tested"),
    "4.0.0": ("note", "4.0.0, {}: newer than 3.255.0, with which this release is tested"),
    "what": ("note", "{} does not say its version"),
}


@pytest.mark.parametrize("version", CLIS)
def test_the_cli_is_told_with_its_version_and_how_to_get_one_that_fits(
    somebody: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    monkeypatch.setattr(choice, "BUILT", tmp_path / "built")
    program = tmp_path / "pulumi"
    if version:
        program.write_text(f"#!/bin/sh\necho v{version}\n")
        program.chmod(0o755)
    env = {**somebody.context.env, "PATH": f"{tmp_path}:/usr/bin:/bin"}
    found = {each.what: each for each in doctor.examine(replace(somebody.context, env=env))}["Pulumi CLI"]
    state, detail = CLIS[version]
    assert (found.state, found.detail) == (state, detail.format(program))
    assert ("make pulumi" in found.remedy) == (state == "note")


def test_a_kubernetes_that_is_not_built_is_a_note_with_how_to_build_it(
    somebody: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {**somebody.context.env, "TIDEPOOL_TOOLCHAIN": "", "XDG_CACHE_HOME": str(tmp_path)}
    found = {each.what: each for each in doctor.examine(replace(somebody.context, env=env))}["Kubernetes"]
    assert found.state == "note"
    assert found.detail.startswith(
        f"Kubernetes is not built for this machine (there is no {tmp_path}/tidepool/toolchain/"
    )
    assert found.remedy.startswith("`make kubernetes` builds it")
    for tool in KUBERNETES.tools:
        (tmp_path / tool).write_text("")
        (tmp_path / tool).chmod(0o755)
    env["TIDEPOOL_TOOLCHAIN"] = str(tmp_path)
    found = {each.what: each for each in doctor.examine(replace(somebody.context, env=env))}["Kubernetes"]
    assert (found.state, found.detail) == ("well", f"of another build, {tmp_path}")


@pytest.mark.parametrize(("room", "state"), [(7, "note"), (8, "well")])
def test_how_many_kubelets_fit_is_told(
    somebody: Person, monkeypatch: pytest.MonkeyPatch, room: int, state: str
) -> None:
    monkeypatch.setattr(kernel, "kubelets_at_most", lambda: room)
    found = findings(somebody)["kubelets"]
    assert found.state == state
    assert found.detail.startswith(f"room for {room} machines of converged pools")


MOUNTS = """\
20 1 0:1 / / rw - overlay overlay rw
21 20 0:2 / /proc rw - proc proc rw
22 20 8:1 / /data rw shared:1 - ext4 /dev/sda1 rw
23 22 0:3 / /data/a\\040b rw - tmpfs none rw
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/", "overlay"),
        ("/var", "overlay"),
        ("/data/x", "ext4"),
        ("/data/a b/c", "tmpfs"),
        ("/datax", "overlay"),
    ],
)
def test_the_file_system_of_a_folder(folder: str, kind: str) -> None:
    assert doctor._file_system(Path(folder), MOUNTS) == kind


# The infrastructures of a stack


@dataclass
class Checked:
    """By infrastructure, what it finds of itself, or how it fails; a package that is there, whose plugin is or is not."""

    found: dict[str, Callable[[], Iterable[Finding]]]

    def checks_of(self, name: str, *_: object) -> Iterable[Finding]:
        return self.found[name]()


@pytest.fixture
def spanning(somebody: Person, monkeypatch: pytest.MonkeyPatch) -> tuple[Person, Checked]:
    """Somebody whose stack has machines of existing hosts and of Kubernetes."""
    checked = Checked({"ssh": lambda: (), "kubernetes": lambda: ()})
    monkeypatch.setattr(doctor, "checks_of", checked.checks_of)
    somebody.write(fleets=[{**SPEC["fleets"][0], "infrastructures": ["local", "ssh", "kubernetes"]}])
    return somebody, checked


def stack_findings(person: Person) -> dict[str, Finding]:
    return {
        found.what: found
        for found in doctor.examine_stack(find_stack(person.context, "dev", str(person.folder)))
    }


def raising(error: Exception) -> Callable[[], Iterable[Finding]]:
    def check() -> Iterable[Finding]:
        raise error

    return check


def test_each_infrastructure_of_a_stack_says_what_it_lacks(spanning: tuple[Person, Checked]) -> None:
    person, checked = spanning
    checked.found["ssh"] = lambda: (
        Finding("host alpha", "well", "it answers"),
        Finding("host beta", "lacks", "it has no ip; run there: apt-get install iproute2"),
    )
    checked.found["kubernetes"] = raising(Permanent("its user may not list pods"))
    said = person.runs("doctor", "--json")
    assert said.exit_code == errors.LACKS
    told = {each["what"]: each for each in json.loads(said.output)}
    assert told["host alpha"]["state"] == "well"
    assert told["host beta"] == {
        "what": "host beta",
        "state": "lacks",
        "detail": "it has no ip; run there: apt-get install iproute2",
        "remedy": "see docs/infrastructures/ssh.md",
    }
    assert told["kubernetes"]["detail"] == "its user may not list pods"
    assert told["kubernetes"]["remedy"] == "see docs/infrastructures/kubernetes.md"


def test_what_somebody_who_deletes_a_machine_takes_with_it_is_told(spanning: tuple[Person, Checked]) -> None:
    person, _ = spanning
    told = stack_findings(person)
    objecting, silent = (told[f"deletions of machines of {name}"] for name in ("kubernetes", "ssh"))
    assert (objecting.state, objecting.remedy) == ("well", "")
    assert "a budget refuses to evict a pod that runs jobs" in objecting.detail
    assert (silent.state, silent.remedy) == ("note", "let few have the right to")
    assert silent.detail.startswith("nothing objects where somebody else deletes one")


def test_one_that_hangs_holds_up_no_other(spanning: tuple[Person, Checked]) -> None:
    person, checked = spanning
    go_on = threading.Event()

    def hangs() -> Iterable[Finding]:
        go_on.wait(60)
        return ()

    checked.found["kubernetes"] = hangs
    checked.found["ssh"] = lambda: (Finding("host alpha", "well", "it answers"),)
    stack = find_stack(person.context, "dev", str(person.folder))
    try:
        found = {each.what: each for each in doctor.fitness(stack, named_infrastructures(stack, None), 0.1)}
    finally:
        go_on.set()
    assert found["kubernetes"].detail == "it has not answered within 0.1 s"
    assert found["host alpha"].state == "well"


def test_a_plugin_that_is_not_there_is_told_with_what_installs_it(
    spanning: tuple[Person, Checked], tmp_path: Path
) -> None:
    """As `up` and `preview` tell it."""
    person, _ = spanning
    found = stack_findings(person)["pulumi-kubernetes"]
    version = _package().version
    assert found.state == "lacks"
    assert f"the plugin pulumi-resource-kubernetes {version} is neither on PATH nor in " in found.detail
    assert found.remedy.startswith(f"pulumi plugin install resource kubernetes {version}; ")
    program = tmp_path / "home" / "plugins" / f"resource-kubernetes-v{version}" / "pulumi-resource-kubernetes"
    program.parent.mkdir(parents=True)
    program.write_text("")
    program.chmod(0o755)
    home = {**person.context.env, "PULUMI_HOME": str(tmp_path / "home")}
    there = replace(person, context=replace(person.context, env=home))
    found = stack_findings(there)["pulumi-kubernetes"]
    assert (found.state, found.detail) == ("well", f"{version}, with its plugin")


def test_a_package_that_has_no_plugin_is_told_without_one(
    somebody: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "package_lacks_of", lambda *_: ())
    stack = find_stack(somebody.context, "dev", str(somebody.folder))
    (found,) = doctor._packages("cloudstack", stack)
    package = descriptor("cloudstack").package
    assert package is not None
    assert (found.what, found.detail) == ("cs", package.version)


def test_a_package_of_another_version_is_a_note(
    spanning: tuple[Person, Checked], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person, _ = spanning
    monkeypatch.setattr(doctor, "package_lacks_of", lambda *_: ())
    monkeypatch.setattr(doctor, "installed", lambda _: "0.0.1")
    found = stack_findings(person)["pulumi-kubernetes"]
    assert (found.state, found.remedy) == ("note", _package().install)


def test_of_a_stack_of_this_machine_nothing_more_is_looked_at(somebody: Person) -> None:
    assert stack_findings(somebody) == {}
    said = somebody.runs("doctor", "-s", "dev")
    assert "this machine, and stack dev" in said.output


def test_a_spec_with_mistakes_is_told(somebody: Person) -> None:
    somebody.write(network="8.8.0.0/16")
    found = stack_findings(somebody)["spec"]
    assert found.state == "lacks"
    assert "8.8.0.0/16" in found.detail


def test_where_no_stack_is_named_it_is_a_note_and_one_that_is_named_has_to_be_there(somebody: Person) -> None:
    somebody.write("chemistry")
    told = {each["what"]: each for each in json.loads(somebody.runs("doctor", "--json").output)}
    assert told["infrastructures"]["state"] == "note"
    assert "which stack?" in told["infrastructures"]["detail"]
    assert told["infrastructures"]["remedy"].startswith("name it: --stack chemistry")
    assert somebody.runs("doctor", "-s", "No Name").exit_code == errors.USAGE


def _package() -> Package:
    package = descriptor("kubernetes").package
    assert package is not None
    return package
