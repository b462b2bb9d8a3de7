"""Two departments of a centre, three accounts each, five people: one has them from the centre's directory, one names them itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from tests.clients.directory import KEY, PASSWORD, Directory, directory
from tests.whole.cluster import SPEC, Cluster, until
from tests.whole.conftest import a_cluster
from tests.whole.test_users import keys, ssh, submit, user
from tidepool.clients.slurm import JobState

pytestmark = pytest.mark.slow

ACCOUNTING: Final = {**SPEC["controller"], "accounting": {"shape": {"cpus": 1, "memory": "512MiB"}}}
#: Of the entries of `tests.clients.directory`: Ada, Grace and Alan.
OPTICS: Final[list[dict[str, Any]]] = [
    {"name": "physics", "limits": {"GrpTRES": "cpu=2"}},
    {"name": "optics", "parent": "physics", "users": ["ada", "alan"]},
    {"name": "lasers", "parent": "physics", "users": ["grace"]},
]
CHEMISTRY: Final[list[dict[str, Any]]] = [
    {"name": "chemistry", "shares": 2},
    {"name": "organic", "parent": "chemistry", "users": ["marie"]},
    {"name": "inorganic", "parent": "chemistry", "users": ["fritz"]},
]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return keys(tmp_path_factory.mktemp("keys"), "ada", "marie", "fritz")


@pytest.fixture(scope="module")
def centre(
    images: Path, own: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cluster, Cluster, Directory]]:
    with ExitStack() as stack:
        people = stack.enter_context(directory(tmp_path_factory.mktemp("ldap") / "slapd"))
        people.change(_with_key("ada", own["ada"].with_suffix(".pub").read_text().strip()))
        ldap = people.ldap.model_dump(mode="json", exclude_unset=True)
        physics = stack.enter_context(
            a_cluster(
                tmp_path_factory.mktemp("physics"),
                images,
                config={"cluster:ldapPassword": PASSWORD},
                controller=ACCOUNTING,
                directory={"ldap": ldap},
                accounts=OPTICS,
            )
        )
        chemistry = stack.enter_context(
            a_cluster(
                tmp_path_factory.mktemp("chemistry"),
                images,
                controller=ACCOUNTING,
                users=[user(own["marie"], 3001), user(own["fritz"], 3004)],
                accounts=CHEMISTRY,
            )
        )
        yield physics, chemistry, people


def _with_key(name: str, key: str) -> str:
    return (
        f"dn: uid={name},ou=people,dc=site\nchangetype: modify\nreplace: sshPublicKey\nsshPublicKey: {key}\n"
    )


def test_people_of_a_directory_are_known_with_their_groups_and_only_in_their_department(
    centre: tuple[Cluster, Cluster, Directory], own: dict[str, Path]
) -> None:
    physics, chemistry, _ = centre
    assert ssh(physics, own["ada"], "login-1", "id", "--name", "--groups").stdout.split() == ["ada", "optics"]
    assert physics.on("cpu-1", "id", "--group", "grace").stdout.strip() == "4000"
    # Marie has Ada's number, in another department.
    assert ssh(chemistry, own["marie"], "login-1", "id", "--user").stdout.strip() == "3001"
    assert ssh(physics, own["marie"], "login-1", "true").returncode == 255
    as_ada = physics.run("ssh", "-u", "ada", "-i", str(own["marie"]), "login-1", "--", "true")
    assert as_ada.returncode == 255
    assert ssh(chemistry, own["ada"], "login-1", "true").returncode == 255
    with chemistry.slurm("marie") as slurm:
        assert slurm.jobs() == ()


def test_a_limit_of_a_department_holds_a_job_of_it_and_is_named(
    centre: tuple[Cluster, Cluster, Directory],
) -> None:
    physics, chemistry, _ = centre
    first = submit(physics, "ada", "sleep 600", cpus_per_task=2, memory_mib=50)
    physics.until_job(first, JobState.RUNNING)
    second = submit(physics, "grace", "sleep 600", memory_mib=50)
    until(lambda: physics.job(second).reason == "AssocGrpCpuLimit" or None, "the limit holds it")
    said = " ".join(physics.tidepool("why", "job", str(second)).split())
    assert "GrpTRES cpu=2 of the account physics" in said, said
    other = submit(chemistry, "fritz", "true", memory_mib=50)
    chemistry.until_job(other, JobState.COMPLETED)
    physics.on("ctl", "scancel", str(first), str(second))


def test_who_leaves_the_directory_is_gone_with_the_next_up_and_a_silent_one_removes_nobody(
    centre: tuple[Cluster, Cluster, Directory],
) -> None:
    physics, _, people = centre
    people.stop()
    told = " ".join(physics.refused("preview").split())
    assert f"{people.ldap.uri}" in told
    assert "Nobody comes or goes until it answers as a whole" in told
    assert PASSWORD not in told
    assert physics.on("login-1", "id", "grace").exit_code == 0
    # While it is silent, the scaler goes on.
    assert "grow" not in physics.tidepool("scale", "--once")
    people.start()

    people.change("dn: uid=grace,ou=people,dc=site\nchangetype: delete\n")
    told = " ".join(physics.refused("preview").split())
    assert "users of the directory" in told or "there is no such user" in told, told
    physics.spec["accounts"][2]["users"] = ["alan"]
    physics.up()
    for machine in ("ctl", "login-1", "cpu-1", "cpu-2"):
        assert physics.on(machine, "id", "grace").exit_code != 0
    assert physics.on("login-1", "stat", "--format=%u", "/home/grace").stdout.strip() == "3002"
    assert KEY not in physics.on("ctl", "cat", "/home/.tidepool/keys/ada").stdout
