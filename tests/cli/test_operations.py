"""`up`, `preview`, `down`, `env`: what is looked at first, what the engine is told, what is said of it."""

from __future__ import annotations

import json
import shutil
import stat
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cli.standins import OUTPUTS, SPEC, Person
from tests.simulation.slurm import FakeSlurm
from tidepool.cli import errors, jobs, stack_spec
from tidepool.cli.engine import Embedded, engine_settings, plugin_settings, prepare
from tidepool.clients.slurm import ControllerDown, JobRequest, JobState, Slots
from tidepool.cluster.desired_state import FORCE_SETTINGS as REGARDLESS
from tidepool.cluster.desired_state import is_forced
from tidepool.infrastructures.local.kernel import Lack, Plans

_CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Plans]:
    """The machine lacks nothing; gives what was planned for it."""
    found: list[Plans] = []

    def preflight(_data: Path, plans: Plans) -> tuple[Lack, ...]:
        found.append(plans)
        return ()

    monkeypatch.setattr(stack_spec, "preflight", preflight)
    return found


def running(somebody: Person) -> int:
    """A cluster that is up, and a job on its first node; the job's id."""
    somebody.engine.outputs = OUTPUTS
    somebody.slurm.create_slots(Slots("cpu-[1-4]", addresses="10.99.1.[1-4]", cpus=1, memory_mib=64))
    somebody.slurm.boot("cpu-1", "cpu-2")
    job = somebody.slurm.submit(JobRequest("#!/bin/sh\n")).job_id
    assert [each.state for each in somebody.slurm.jobs()] == [JobState.RUNNING]
    return job


# What comes before


def test_a_stack_is_made_where_there_is_none(somebody: Person) -> None:
    said = somebody.runs("up", "--yes")
    assert said.exit_code == 0, said.output
    assert ("stack", "init", "dev", "--no-select") in somebody.engine.asked
    parts = (
        "up",
        "--stack",
        "dev",
        "--suppress-outputs",
        "--yes",
        "--skip-preview",
        "--refresh",
        "--parallel",
        "256",
    )
    assert somebody.engine.ran == [parts]


def test_what_the_engine_is_told(somebody: Person) -> None:
    somebody.engine.outputs = {}
    assert somebody.runs("up", "--yes", "--no-refresh", "-p", "4", "--", "--target", "urn").exit_code == 0
    words = (
        "up",
        "--stack",
        "dev",
        "--suppress-outputs",
        "--yes",
        "--skip-preview",
        "--parallel",
        "4",
        "--target",
        "urn",
    )
    assert somebody.engine.ran == [words]
    assert all(asked[0:2] != ("stack", "init") for asked in somebody.engine.asked)


def test_a_person_is_asked_by_the_engine(somebody: Person) -> None:
    said = somebody.runs("up", person=True)
    assert said.exit_code == 0
    assert somebody.engine.ran == [
        ("up", "--stack", "dev", "--suppress-outputs", "--refresh", "--parallel", "256")
    ]


@pytest.mark.parametrize("verb", ["up", "down"])
def test_where_nobody_can_be_asked_yes_has_to_be_said(somebody: Person, verb: str) -> None:
    somebody.engine.outputs = OUTPUTS
    (somebody.context.data / "state").mkdir(parents=True)
    said = somebody.runs(verb)
    assert said.exit_code == errors.USAGE
    assert f"tidepool {verb} --yes" in said.output
    assert somebody.engine.ran == []


def test_all_mistakes_of_a_spec_are_told_with_the_files_name(somebody: Person) -> None:
    fleet = {**SPEC["fleets"][0], "max_nodez": 3, "name": "9!"}
    somebody.write(network="8.8.0.0/16", fleets=[fleet], partitions=[{"name": "main", "fleets": ["gpu"]}])
    for words in (("up", "--yes"), ("preview",)):
        said = somebody.runs(*words)
        assert said.exit_code == errors.USAGE
        for told in ("Pulumi.dev.yaml", "max_nodez", "max_nodes", "9!", "8.8.0.0/16", "gpu"):
            assert told in said.output, told
    assert somebody.engine.ran == []
    assert somebody.engine.asked == []


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("config: {}", "no cluster:spec"),
        ("config: {cluster:spec: 7}", "keys and values"),
        ("config: [", "Pulumi.dev.yaml"),
        (None, "dev is not described"),
    ],
)
def test_a_file_without_a_spec_is_told(somebody: Person, content: str | None, told: str) -> None:
    file = somebody.folder / "Pulumi.dev.yaml"
    file.unlink() if content is None else file.write_text(content)
    said = somebody.runs("up", "--yes", "--stack", "dev")
    assert said.exit_code == errors.USAGE
    assert told in said.output


def test_an_image_without_a_recipe_is_told(somebody: Person) -> None:
    recipe = somebody.folder / "images" / "slurm" / "recipe.yaml"
    recipe.parent.mkdir(parents=True)
    recipe.touch()
    somebody.write(image="debian-99")
    said = somebody.runs("up", "--yes")
    assert said.exit_code == errors.USAGE
    assert "no image debian-99" in said.output
    assert "slurm, or write its recipe" in said.output
    somebody.write(image="slurm")
    assert somebody.runs("up", "--yes").exit_code == 0


def test_the_machine_is_looked_at_for_what_is_made_at_first(somebody: Person, planned: list[Plans]) -> None:
    somebody.runs("up", "--yes")
    confining = ("freezer", "memory", "cpuset")
    assert planned == [Plans(4, 4 * 64, ("10.99.0.0/16",), controllers=confining)]


POOL = {"name": "shared", "subnet": "10.99.2.0/24", "machines": 3, "shape": {"cpus": 1, "memory": "64MiB"}}


def test_a_pool_s_image_has_to_hold_both_roles(somebody: Person, planned: list[Plans]) -> None:
    for name in ("debian-12", "debian-12-converged"):
        shutil.copytree(_CHECKOUT / "images" / name, somebody.folder / "images" / name)
    shutil.copytree(_CHECKOUT / "playbooks", somebody.folder / "playbooks")
    somebody.write(pools=[{**POOL, "image": "debian-12"}], kubernetes={})
    said = somebody.runs("up", "--yes")
    assert said.exit_code == errors.USAGE
    assert (
        "pool shared: its image debian-12 does not hold the role kubernetes, as it has no package containerd, no package "
        "containernetworking-plugins, no package runc, no tool kubelet, no tool pause; name one that does"
    ) in said.output
    assert planned == []
    (somebody.folder / "images/debian-12/packages.lock").unlink()
    assert "there is no lock beside the recipe" in somebody.runs("up", "--yes").output


def test_pools_are_planned_for_and_need_a_kubernetes_that_is_built(
    somebody: Person, planned: list[Plans], tmp_path: Path
) -> None:
    somebody.write(pools=[POOL], kubernetes={"shape": {"cpus": 1, "memory": "100MiB"}})
    said = somebody.runs(
        "up", "--yes", env={**somebody.context.env, "TIDEPOOL_TOOLCHAIN": str(tmp_path / "none")}
    )
    assert said.exit_code == errors.LACKS
    assert "which TIDEPOOL_TOOLCHAIN names, has no program etcd, " in said.output
    assert "make kubernetes" in said.output
    assert somebody.engine.ran == []
    (plans,) = planned
    assert plans == Plans(8, 7 * 64 + 100, ("10.99.0.0/16",), 3, ("freezer", "memory", "cpuset"))


def test_what_the_machine_lacks_is_told_before_anything_is_made(
    somebody: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacks = (Lack("no ip", "apt-get install iproute2"), Lack("no gcc", "apt-get install gcc"))
    monkeypatch.setattr(stack_spec, "preflight", lambda *_: lacks)
    said = somebody.runs("up", "--yes")
    assert said.exit_code == errors.LACKS
    assert "apt-get install iproute2" in said.output
    assert "apt-get install gcc" in said.output
    assert somebody.engine.ran == []


def test_nodes_that_booted_before_devices_were_closed_are_in_the_way(
    somebody: Person, planned: list[Plans], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = [SimpleNamespace(name=name, pid=pid) for name, pid in (("cpu-1", 1), ("cpu-2", None), ("ctl", 3))]
    monkeypatch.setattr(stack_spec, "list_machines", lambda *_: there)
    monkeypatch.setattr(stack_spec, "may_close_devices", lambda _: False)
    gres = [{"name": "gpu", "files": "/dev/nvidia0"}]
    somebody.write(fleets=[{**SPEC["fleets"][0], "shape": {"cpus": 1, "memory": "64MiB", "gres": gres}}])
    said = somebody.runs("preview")
    assert said.exit_code == errors.LACKS
    assert "cpu-1 booted before devices were closed to jobs, and no job would start there" in said.output
    monkeypatch.setattr(stack_spec, "may_close_devices", lambda _: True)
    assert somebody.runs("preview").exit_code == 0


def test_what_is_no_obstacle_is_a_warning(somebody: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_spec, "preflight", lambda *_: (Lack("in use", "another", fatal=False),))
    somebody.write(fleets=[{**SPEC["fleets"][0], "shape": {"cpus": 1, "memory": "900GiB"}}])
    said = somebody.runs("preview")
    assert said.exit_code == 0
    assert "warning: in use: another" in said.stderr
    assert "921600 MiB" in said.stderr


# Jobs in the way


def test_a_fleet_with_running_jobs_does_not_go(somebody: Person) -> None:
    job = running(somebody)
    somebody.write(fleets=[{**SPEC["fleets"][0], "name": "other"}])
    for words in (("up", "--yes"), ("preview",)):
        said = somebody.runs(*words)
        assert said.exit_code == errors.JOBS
        assert f"fleet cpu is not in the spec any more, and has the jobs {job}" in said.output
    assert somebody.engine.ran == []
    somebody.slurm.finish(job)
    assert somebody.runs("up", "--yes").exit_code == 0


def test_what_slurm_does_not_say_is_not_taken_away(somebody: Person) -> None:
    running(somebody)
    somebody.write(fleets=[{**SPEC["fleets"][0], "name": "other"}])
    somebody.slurm.fail(ControllerDown("no answer", where="there", remedy="wait"))
    said = somebody.runs("up", "--yes")
    assert said.exit_code == errors.NOT_THERE
    assert somebody.engine.ran == []


def test_where_no_node_goes_slurm_is_not_asked(somebody: Person) -> None:
    running(somebody)
    somebody.slurm.fail(ControllerDown("no answer", where="there", remedy="wait"))
    somebody.write(fleets=[{**SPEC["fleets"][0], "max_nodes": 2}])
    assert somebody.runs("up", "--yes").exit_code == 0


def test_down_is_refused_while_jobs_run_or_wait(somebody: Person) -> None:
    job = running(somebody)
    waiting = [somebody.slurm.submit(JobRequest("#!/bin/sh\n")).job_id for _ in range(2)][-1]
    (somebody.context.data / "state").mkdir(parents=True)
    said = somebody.runs("down", "--yes")
    assert said.exit_code == errors.JOBS
    assert str(job) in said.output
    assert f"waiting: {waiting}" in said.output
    assert somebody.engine.ran == []


def test_down_by_force_cancels_jobs_first(somebody: Person) -> None:
    running(somebody)
    (somebody.context.data / "state").mkdir(parents=True)
    said = somebody.runs("down", "--yes", "--force")
    assert said.exit_code == 0, said.output
    assert somebody.slurm.jobs() == ()
    assert somebody.engine.ran[0][:3] == ("destroy", "--stack", "dev")
    # What comes meanwhile does not keep it either.
    assert is_forced(somebody.engine.environments[0])
    # It is said to that operation alone, whatever a person's environment has.
    env = {**somebody.context.env, **REGARDLESS}
    assert somebody.runs("down", "--yes", env=env).exit_code == 0
    assert not is_forced(somebody.engine.environments[1])


def test_jobs_that_do_not_end_keep_nobody_who_forces(
    somebody: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(somebody)
    (somebody.context.data / "state").mkdir(parents=True)
    monkeypatch.setattr(jobs, "_CANCEL_S", 0.0)
    monkeypatch.setattr(FakeSlurm, "cancel", lambda *_: None)
    said = somebody.runs("down", "--yes", "--force")
    assert said.exit_code == 0, said.output
    assert "not ended; they end with their machines" in said.output


def test_who_declines_loses_nothing(somebody: Person) -> None:
    job = running(somebody)
    home = somebody.context.data / "dev" / "volumes" / "empty"
    home.mkdir(parents=True)
    (somebody.context.data / "state").mkdir()
    said = somebody.runs("down", "--force", "--purge", person=True, input="n\n")
    assert (said.exit_code, somebody.engine.ran) == (0, [])
    assert [each.job_id for each in somebody.slurm.jobs()] == [job]
    # The engine asks, and is told no: it says so by its events alone, which have no summary but the preview's.
    somebody.slurm.finish(job)
    somebody.engine.events = EVENTS[:1]
    said = somebody.runs("down", "--purge", person=True)
    assert said.exit_code == 0
    assert len(somebody.engine.ran) == 1
    assert home.exists()
    # No state, but something is left: it is asked for here.
    somebody.engine.outputs = None
    assert somebody.runs("down", "--purge", person=True, input="n\n").exit_code == 0
    assert home.exists()
    assert somebody.runs("down", "--purge", person=True, input="y\n").exit_code == 0
    assert not home.exists()


def test_down_of_nothing_is_no_error_and_makes_nothing(somebody: Person) -> None:
    said = somebody.runs("down")
    assert (said.exit_code, said.output) == (0, "There is nothing of stack dev.\n")
    assert not somebody.context.data.exists()


def test_volumes_are_kept_and_purged(somebody: Person) -> None:
    home = somebody.context.data / "dev" / "volumes" / "home"
    home.mkdir(parents=True)
    (home / "thesis.tex").write_text("\\end")
    told = json.loads(somebody.runs("down", "--yes", "--json").output)
    assert told["kept"] == [{"volume": "home", "path": str(home)}]
    assert (home / "thesis.tex").exists()
    assert json.loads(somebody.runs("down", "--yes", "--json", "--purge").output)["kept"] == []
    assert not (somebody.context.data / "dev").exists()


def test_what_a_failed_destroy_left_is_not_swept(somebody: Person) -> None:
    somebody.engine.outputs, somebody.engine.code = {}, 1
    (somebody.context.data / "state").mkdir(parents=True)
    home = somebody.context.data / "dev" / "volumes" / "home"
    home.mkdir(parents=True)
    assert somebody.runs("down", "--yes", "--purge").exit_code == errors.FAILED
    assert home.exists()


# What is said


EVENTS: list[dict[str, Any]] = [
    {"summaryEvent": {"isPreview": True, "resourceChanges": {"create": 9}, "result": "succeeded"}},
    {"diagnosticEvent": {"severity": "info#err", "message": "chatter\n"}},
    {"diagnosticEvent": {"severity": "error", "urn": "urn:x", "message": "no room\n"}},
    {"diagnosticEvent": {"severity": "error", "message": "a while\n", "ephemeral": True}},
    {"summaryEvent": {"isPreview": False, "resourceChanges": {"create": 2, "same": 1}, "result": "failed"}},
]


def test_json_of_an_operation_counts_and_tells(somebody: Person) -> None:
    somebody.engine.events, somebody.engine.code = EVENTS, 1
    somebody.engine.outputs = OUTPUTS
    said = somebody.runs("up", "--yes", "--json")
    assert said.exit_code == errors.FAILED
    told = json.loads(said.stdout)
    assert told["changes"] == {"create": 2, "same": 1}
    assert told["result"] == "failed"
    assert told["diagnostics"] == [{"severity": "error", "urn": "urn:x", "message": "no room"}]
    assert told["outputs"] == OUTPUTS
    assert not [each for each in somebody.context.data.iterdir() if each.name.startswith("operation")]


def test_a_person_who_declines_is_told_apart(somebody: Person) -> None:
    somebody.engine.events = EVENTS[:1]
    told = json.loads(somebody.runs("up", "--json", person=True).stdout)
    assert (told["result"], told["changes"]) == ("declined", {})


@pytest.mark.parametrize(("code", "ours"), [(0, 0), (1, 1), (2, 1), (255, 1), (130, 130)])
def test_codes_of_the_engine_are_few_of_ours(somebody: Person, code: int, ours: int) -> None:
    somebody.engine.code = code
    assert somebody.runs("up", "--yes").exit_code == ours
    assert somebody.runs("preview").exit_code == ours


# The environment


def test_state_and_passphrase_are_for_their_owner_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    settings = engine_settings({}, data)
    prepare(settings, data, {}, "")
    passphrase = Path(settings["PULUMI_CONFIG_PASSPHRASE_FILE"])
    first = passphrase.read_text()
    assert len(first) > 40
    prepare(settings, data, {}, "")
    assert passphrase.read_text() == first
    assert stat.S_IMODE(passphrase.stat().st_mode) == 0o600
    assert stat.S_IMODE((data / "state").stat().st_mode) == 0o700
    assert sorted(each.name for each in data.iterdir()) == ["passphrase", "state"]


@pytest.mark.parametrize(
    ("env", "backend", "absent"),
    [
        ({"PULUMI_BACKEND_URL": "file:///elsewhere"}, "", "PULUMI_BACKEND_URL"),
        ({}, "file:///of-the-project", "PULUMI_BACKEND_URL"),
        ({"PULUMI_CONFIG_PASSPHRASE": ""}, "", "PULUMI_CONFIG_PASSPHRASE_FILE"),
        ({"PULUMI_CONFIG_PASSPHRASE_FILE": "/mine"}, "", "PULUMI_CONFIG_PASSPHRASE_FILE"),
    ],
)
def test_what_a_person_set_is_left_as_it_is(
    tmp_path: Path, env: dict[str, str], backend: str, absent: str
) -> None:
    settings = engine_settings(env, tmp_path, backend)
    assert absent not in settings
    assert "PULUMI_SKIP_UPDATE_CHECK" in settings


def test_pulumi_finds_the_plugin_that_pip_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert plugin_settings({"PATH": "/usr/bin"}) == {}
    (tmp_path / "pulumi-resource-tidepool").touch(0o755)
    assert plugin_settings({"PATH": "/usr/bin"}) == {"PATH": f"{tmp_path}:/usr/bin"}
    assert plugin_settings({"PATH": f"/usr/bin:{tmp_path}"}) == {}
    assert plugin_settings({}) == {"PATH": str(tmp_path)}


def test_env_is_lines_for_a_shell(somebody: Person) -> None:
    said = somebody.runs("env")
    assert f"export PULUMI_BACKEND_URL=file://{somebody.context.data}/state\n" in said.output
    told = json.loads(somebody.runs("env", "--json").output)
    assert told["PULUMI_STACK"] == "dev"
    assert Path(told["PULUMI_CONFIG_PASSPHRASE_FILE"]).exists()


def test_where_nothing_may_be_written_the_remedy_is_told(
    somebody: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(somebody.context.data))

    monkeypatch.setattr(Path, "mkdir", refuse)
    said = somebody.runs("up", "--yes")
    assert said.exit_code == errors.LACKS
    assert "sudo" in said.output


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("status", errors.LACKS),
        ("drain cpu-1", errors.LACKS),
        ("resume cpu-1", errors.LACKS),
        ("logs controller", errors.LACKS),
        ("down --yes", errors.LACKS),
        ("exec cpu-1 true", errors.EXEC_FAILED),
        ("ssh cpu-1", errors.SSH_FAILED),
    ],
)
def test_without_root_sudo_is_told(somebody: Person, words: str, code: int) -> None:
    somebody.engine.outputs = OUTPUTS
    said = somebody.runs(*words.split(), root=False)
    assert said.exit_code == code
    assert "run it with sudo" in said.output


# The embedded engine itself


_PROGRAM = """
import json, pathlib
import pulumi

for name, value in json.loads(pathlib.Path("outputs.json").read_text()).items():
    pulumi.export(name, pulumi.Output.secret(value) if name == "sshKey" else value)
"""


def test_a_program_goes_up_and_down_with_the_embedded_engine(somebody: Person) -> None:
    (somebody.folder / "__main__.py").write_text(_PROGRAM)
    (somebody.folder / "outputs.json").write_text(json.dumps({**OUTPUTS, "sshKey": "the key"}))
    person = replace(
        somebody, context=replace(somebody.context, engine=Embedded(person=False, owns_process=False))
    )
    previewed = json.loads(person.runs("preview", "--json").stdout)
    assert (previewed["result"], previewed["changes"], previewed["outputs"]) == (
        "succeeded",
        {"create": 1},
        {},
    )
    done = json.loads(person.runs("up", "--yes", "--json").stdout)
    assert (done["result"], done["changes"]) == ("succeeded", {"create": 1})
    assert done["outputs"] == dict(sorted(OUTPUTS.items()))
    again = json.loads(person.runs("up", "--yes", "--json").stdout)
    assert again["changes"] == {"same": 1}
    down = json.loads(person.runs("down", "--yes", "--json", "--purge").stdout)
    assert (down["result"], down["changes"]) == ("succeeded", {"delete": 1})
    assert person.runs("down").output == "There is nothing of stack dev.\n"
    assert (somebody.folder / "Pulumi.dev.yaml").exists()


@pytest.mark.parametrize("secret", [False, True])
def test_a_salt_of_a_lost_passphrase_goes_unless_something_is_encrypted(
    somebody: Person, secret: bool
) -> None:
    (somebody.folder / "__main__.py").write_text("")
    file = somebody.folder / "Pulumi.dev.yaml"
    salt = "v1:7QDyyTWH7B0=:v1:o3qoio/yJun2QQ8R:iuq/WKusZbTRNEv+GGzZbTfNSph/TA=="
    config = {"cluster:spec": SPEC, **({"cluster:token": {"secure": "v1:abc"}} if secret else {})}
    file.write_text(f"config: {json.dumps(config)}\nencryptionsalt: {salt}\n")
    person = replace(
        somebody, context=replace(somebody.context, engine=Embedded(person=False, owns_process=False))
    )
    said = person.runs("preview", "--json")
    assert said.exit_code == (errors.FAILED if secret else errors.OK), said.output
    assert ("of another passphrase" in said.stderr) is not secret
    assert (salt in file.read_text()) is secret


def test_a_stacks_file_is_not_touched(somebody: Person) -> None:
    (somebody.folder / "__main__.py").write_text("")
    file = somebody.folder / "Pulumi.dev.yaml"
    before = f"# Mine.\nconfig:\n  cluster:spec: {json.dumps(SPEC)} # one line\n"
    file.write_text(before)
    person = replace(
        somebody, context=replace(somebody.context, engine=Embedded(person=False, owns_process=False))
    )
    for words in (("preview",), ("up", "--yes"), ("up", "--yes"), ("down", "--yes"), ("up", "--yes")):
        assert person.runs(*words).exit_code == 0, words
        assert file.read_text() == before, words


def test_a_program_that_fails_is_told_in_the_document(somebody: Person) -> None:
    (somebody.folder / "__main__.py").write_text("import pulumi\nraise pulumi.RunError('no luck today')\n")
    person = replace(
        somebody, context=replace(somebody.context, engine=Embedded(person=False, owns_process=False))
    )
    said = person.runs("up", "--yes", "--json")
    assert said.exit_code == errors.FAILED
    told = json.loads(said.stdout)
    assert told["result"] == "failed"
    assert any("no luck today" in each["message"] for each in told["diagnostics"])
