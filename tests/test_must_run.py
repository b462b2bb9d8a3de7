"""In CI what is skipped fails, but for what is listed; elsewhere it is skipped."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.must_run import MAY_SKIP, MUST_RUN

ROOT = Path(__file__).parents[1]
TESTS = """
import pytest

def test_asks_for_what_is_not_there(): pytest.skip("needs Go, which is not on PATH")

@pytest.mark.skipif(True, reason="needs Kubernetes, which is not built here")
def test_is_marked(): ...

@pytest.fixture
def nothing(): pytest.skip("the lock of debian-12 asks for more than the mirror has")

def test_has_a_fixture(nothing): ...

@pytest.mark.skipif(True, reason="there is no kubectl on PATH")
def test_is_listed(): ...

@pytest.mark.xfail
def test_is_known_to_fail(): assert False

def test_runs(): ...
"""
MODULE = "import pytest\npytest.importorskip('no_such_package', reason='no-such-package is not installed')\n"


def outcomes(folder: Path, said: str) -> tuple[int, dict[str, int], str]:
    """What pytest came to: its exit code, how many tests of each outcome, and all that it wrote."""
    (folder / "test_some.py").write_text(TESTS)
    (folder / "test_module.py").write_text(MODULE)
    (folder / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.must_run", "-p", "no:cacheprovider",
         "--continue-on-collection-errors", folder],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), MUST_RUN: said},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    closing = done.stdout.splitlines()[-1]
    return done.returncode, {what: int(n) for n, what in re.findall(r"(\d+) ([a-z]+)", closing)}, done.stdout


def test_a_person_is_told_what_was_skipped(tmp_path: Path) -> None:
    code, found, _ = outcomes(tmp_path, "")
    assert (code, found) == (0, {"passed": 1, "skipped": 5, "xfailed": 1})


def test_in_ci_what_is_skipped_has_failed_but_for_what_is_listed(tmp_path: Path) -> None:
    code, found, said = outcomes(tmp_path, "1")
    assert code == 1
    # What skips before it begins, and a module that does, are errors, as pytest calls them.
    assert found == {"failed": 1, "passed": 1, "skipped": 1, "xfailed": 1, "errors": 3}
    for reason in ("needs Go", "needs Kubernetes", "the lock of debian-12 asks", "no-such-package is not"):
        assert re.search(rf"was skipped, and {MUST_RUN} says that it must run: {reason}", said)


@pytest.mark.parametrize("listed", MAY_SKIP)
def test_each_that_is_listed_is_said_by_a_test(listed: str) -> None:
    files = (file for file in (ROOT / "tests").rglob("*.py") if not file.name.endswith("must_run.py"))
    assert any(listed in file.read_text() for file in files)
