"""`.ci/run` and `scripts/setup`, run in folders of their own with stand-ins for what they call."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.must_run import MUST_RUN

ROOT = Path(__file__).parent.parent

#: Stands for Python, pip and venv; writes down how it was called.
FAKE_PYTHON = """#!/usr/bin/env bash
echo "$*" >>"$CALLS"
case "$1 $2" in
    "-c "*) echo "$PWD/ensurepip"; [[ ${TOO_OLD:-} == "" ]] ;;
    "--version "*) echo "Python 3.11.0" ;;
    "-m venv") mkdir -p "$5/bin"; cp "$0" "$5/bin/python" ;;
    "-m zipfile") [[ -e $4 ]] ;;
    "-m pip") [[ $* != *"${FAILS:-nothing}"* ]] ;;
    "-m uv") [[ $* != *install* ]] || echo "#!$PWD/.venv/bin/python" >.venv/bin/pip; [[ $* != *"${FAILS:-nothing}"* ]] ;;
esac
"""


def run(command: list[str], cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Standard error goes where standard output goes, as a CI's log has it."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    return subprocess.run(
        command,
        cwd=cwd,
        env={**inherited, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


#: Stands for apt-get as root.
FAKE_INSTALL = """#!/usr/bin/env bash
echo "install $*" >>"$CALLS"
[[ ${FAILS:-} != apt ]]
"""

CLOSING = "==== 1 failed, 2 passed in 3.45s ===="


SLOW_CLOSING = "==== 4 passed, 1 skipped in 67.80s (0:01:07) ===="


@pytest.mark.parametrize(
    ("recipe", "code", "told"),
    [
        (f"@echo '{CLOSING}'", 0, [CLOSING]),
        (f"@echo '{CLOSING}'; echo a straggler", 0, [CLOSING]),
        (f"@echo '{CLOSING}'; exit 1", 2, [".ci/run: make test failed with exit code 2", CLOSING]),
        (
            "@echo lint: wrong; exit 1",
            2,
            [
                ".ci/run: make test failed with exit code 2",
                ".ci/run: pytest did not run to its end in make test; what stopped it stands above",
            ],
        ),
    ],
)
def test_ci_ends_with_pytests_closing_lines_and_the_first_failures_exit_code(
    tmp_path: Path, recipe: str, code: int, told: list[str]
) -> None:
    done = ci(tmp_path, f"toolchains:\ntest:\n\t{recipe}\ntest-slow:\n\t@echo '{SLOW_CLOSING}'\n")
    assert done.returncode == code
    assert done.stdout.splitlines()[-len(told) - 1 :] == [*told, SLOW_CLOSING]


def ci(folder: Path, makefile: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `.ci/run` beside that Makefile, with the ordinary programs alone."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", folder / ".ci/run")
    (folder / "Makefile").write_text(makefile)
    path = folder / "programs"
    path.mkdir()
    ordinary = "bash cat df dirname echo env grep make mktemp rm sh tail tee timeout tr"
    for name in ordinary.split(" "):
        (path / name).symlink_to(shutil.which(name) or "/bin/true")
    return run([".ci/run"], folder, PATH=str(path), **environment)


def test_ci_tells_a_toolchain_that_cannot_be_built_by_its_exit_code(tmp_path: Path) -> None:
    tests = f"test:\n\t@echo '{CLOSING}'\ntest-slow:\n\t@echo '{SLOW_CLOSING}'\n"
    done = ci(tmp_path, f"{tests}toolchains:\n\t@exit 1\n")
    assert done.returncode == 2
    assert done.stdout.splitlines()[-3:] == [
        CLOSING,
        ".ci/run: make toolchains failed with exit code 2",
        SLOW_CLOSING,
    ], "the tests run all the same"


@pytest.mark.parametrize(
    ("environment", "says"),
    [({}, ["built", "must run: 1"]), ({MUST_RUN: ""}, ["built --where-possible", "must run:"])],
)
def test_ci_leaves_nothing_out_unless_it_is_told_to(
    tmp_path: Path, environment: dict[str, str], says: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(MUST_RUN, raising=False)
    recipes = (
        "toolchains:\n\t@echo built $(TOOLCHAIN_ARGS)\n"
        f"test:\n\t@echo '{CLOSING}'\ntest-slow:\n\t@echo must run: $${MUST_RUN}; echo '{SLOW_CLOSING}'\n"
    )
    done = ci(tmp_path, recipes, **environment)
    assert done.returncode == 0
    *ran, took, closing, slow_closing = done.stdout.splitlines()
    assert ran == [CLOSING, *says, SLOW_CLOSING]
    assert re.fullmatch(
        r"\.ci/run: minutes: test 0, toolchains 0, test-slow 0; free on disk: \d+G before, \d+G after", took
    )
    assert (closing, slow_closing) == (CLOSING, SLOW_CLOSING)


#: What `scripts/setup` makes the environment from.
READ = (
    "scripts/setup",
    "scripts/uv.txt",
    "requirements.txt",
    "requirements-dev.txt",
    "pyproject.toml",
)


class Clone:
    """A folder with `scripts/setup` and what it reads, and a Python that only writes down its calls."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.calls = path / "calls"
        (path / "scripts").mkdir()
        for name in READ:
            shutil.copy(ROOT / name, path / name)
        stand_in = path / "scripts/install-packages"
        stand_in.write_text(FAKE_INSTALL)
        stand_in.chmod(0o755)
        (path / "ensurepip/_bundled").mkdir(parents=True)
        (path / "ensurepip/_bundled/pip-23.0-py3-none-any.whl").touch()
        (path / "scripts/packages").write_text("# None is missing.\nall bash bash\n")
        self.python = path / "python"
        self.python.write_text(FAKE_PYTHON)
        self.python.chmod(0o755)

    def setup(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        self.calls.write_text("")
        given = {"PYTHON": str(self.python), "CALLS": str(self.calls), **environment}
        return run(["scripts/setup", *arguments], self.path, **given)

    def installs(self) -> list[str]:
        return [
            call for call in self.calls.read_text().splitlines() if "-m uv" in call and " install " in call
        ]


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def test_setup_installs_by_digest_and_from_wheels(clone: Clone) -> None:
    done = clone.setup()
    assert done.returncode == 0, done.stdout
    packages, project = clone.installs()
    assert "--require-hashes" in packages
    assert "--only-binary :all:" in packages
    assert "--no-deps" in project
    assert "--offline" in project
    assert (
        "pip --disable-pip-version-check --no-input --quiet install --no-compile --no-deps --require-hashes"
        in clone.calls.read_text()
    )


def test_setup_does_nothing_the_second_time(clone: Clone) -> None:
    assert clone.setup().returncode == 0
    again = clone.setup()
    assert again.returncode == 0
    assert again.stdout == ""
    assert clone.calls.read_text() == ""


@pytest.mark.parametrize("changed", [name for name in READ if name != "requirements-dev.txt"])
def test_setup_installs_again_into_the_same_place_when_something_changed(clone: Clone, changed: str) -> None:
    clone.setup()
    with (clone.path / changed).open("a") as file:
        file.write("\n# a change\n")
    assert clone.setup().returncode == 0
    assert len(clone.installs()) == 2
    assert "-m venv" not in clone.calls.read_text()


def test_setup_makes_an_environment_anew_that_was_moved(clone: Clone) -> None:
    clone.setup()
    (clone.path / ".venv/bin/pip").write_text("#!/elsewhere/.venv/bin/python\n")
    (clone.path / ".venv/.setup-all").write_text("made elsewhere")
    assert clone.setup().returncode == 0
    assert "-m venv" in clone.calls.read_text()


@pytest.mark.parametrize("step", ["--require-hashes", "--editable", "check"])
def test_setup_that_failed_is_not_taken_for_done(clone: Clone, step: str) -> None:
    assert clone.setup(FAILS=step).returncode != 0
    assert clone.setup().returncode == 0
    assert len(clone.installs()) == 2


def test_setup_installs_what_is_missing_and_no_more(clone: Clone) -> None:
    packages = (
        "all bash bash\n\nall no-such-ip iproute2\nall /no/*/libc.a libc6-dev\ntests no-such-munged munge\n"
    )
    (clone.path / "scripts/packages").write_text(packages)
    assert clone.setup().returncode == 0
    assert "install iproute2 libc6-dev\n" in clone.calls.read_text()
    assert clone.setup("--tests").returncode == 0
    assert "install iproute2 libc6-dev munge\n" in clone.calls.read_text()
    assert "--requirement requirements-dev.txt" in clone.installs()[0]


def test_setup_for_tests_is_one_for_all(clone: Clone) -> None:
    assert clone.setup("--tests").returncode == 0
    again = clone.setup()
    assert (again.returncode, again.stdout, clone.installs()) == (0, "", [])


def test_setup_builds_an_image_beside_the_rest_and_goes_on_where_that_fails(clone: Clone) -> None:
    programs = "all bash bash\nall no-such-ip iproute2\n"
    (clone.path / "scripts/packages").write_text(programs)
    fetch = clone.path / "scripts/fetch-packages"
    fetch.write_text('#!/bin/bash\necho "fetch $*" >>"$CALLS"\nexit 1\n')
    fetch.chmod(0o755)
    clone.python.write_text(FAKE_PYTHON + "[[ $* != *tidepool.images* ]]\n")
    done = clone.setup("--image", "debian-12", TIDEPOOL_DATA="/data")
    assert done.returncode == 0, done.stdout
    calls = clone.calls.read_text()
    assert "fetch debian-12 /data/images\n" in calls
    assert "-m tidepool.images build images/debian-12 --store /data/images\n" in calls


def test_setup_tells_what_a_build_says_of_the_image(clone: Clone) -> None:
    (clone.path / "scripts/packages").write_text("all bash bash\n")
    told = "image debian-12: the mirror has moved on from its lock."
    clone.python.write_text(
        f"{FAKE_PYTHON}[[ $* != *tidepool.images* ]] || {{ echo '{told}'; echo 'build  50% unpacking'; }} >&2\n"
    )
    (clone.path / "mmdebstrap").symlink_to("/bin/true")
    done = clone.setup("--image", "debian-12", PATH=f"{clone.path}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1] == told
    assert "unpacking" not in done.stdout


def test_setup_takes_pips_settings_for_uv(clone: Clone) -> None:
    """Where packages come from is set for pip, on most machines."""
    settings = "case $* in *'config list'*) echo \"global.index-url='https://mirror.example/simple'\" ;; esac"
    clone.python.write_text(
        FAKE_PYTHON + settings + '\n[[ $* != *"-m uv"* ]] || echo "of $UV_DEFAULT_INDEX" >>"$CALLS"\n'
    )
    assert clone.setup().returncode == 0
    assert "of https://mirror.example/simple" in clone.calls.read_text()


def test_setup_says_what_to_run_by_hand_where_it_could_not_install(clone: Clone) -> None:
    (clone.path / "scripts/packages").write_text("all no-such-ip iproute2\n")
    done = clone.setup(FAILS="apt")
    assert done.returncode == 1
    assert "run as root: apt-get install --no-install-recommends iproute2\n" in done.stdout


def test_setup_goes_on_without_what_it_cannot_install(clone: Clone, tmp_path: Path) -> None:
    (clone.path / "scripts/packages").write_text("all no-such-ip iproute2\n")
    programs = tmp_path / "programs"  # no apt-get
    programs.mkdir()
    for name in (
        "bash",
        "cat",
        "dirname",
        "echo",
        "env",
        "grep",
        "id",
        "mkdir",
        "mktemp",
        "cp",
        "rm",
        "sleep",
        "sha256sum",
        "tail",
    ):
        (programs / name).symlink_to(shutil.which(name) or name)
    done = clone.setup(PATH=str(programs))
    assert done.returncode == 0, done.stdout
    assert "cannot be installed here without root and apt-get: iproute2." in done.stdout
    assert len(clone.installs()) == 2


def test_setup_knows_no_other_word(clone: Clone) -> None:
    done = clone.setup("--test")
    assert (done.returncode, done.stdout) == (2, "usage: scripts/setup [--tests | --image NAME]\n")


def test_setup_refuses_a_python_that_is_too_old(clone: Clone) -> None:
    done = clone.setup(TOO_OLD="yes")
    assert done.returncode == 1
    assert "is not a Python 3.11 or newer" in done.stdout
    assert not (clone.path / ".venv").exists()
