"""Flux before it is opened: what is missing is said with its remedy, and there are no options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tidepool.clients.here import Here
from tidepool.lab.errors import LabError
from tidepool.lab.hosting.local import LocalHosting
from tidepool.lab.schedulers.flux import KIND
from tidepool.lab.testbed import PROGRAMS, RECORDS, Testbed


@pytest.fixture
def testbed(tmp_path: Path) -> Testbed:
    """One whose machines cannot be reached, and whose controller is a folder without programs."""
    return Testbed(
        stack="none",
        machines=("m-1", "m-2"),
        cpus_per_machine=2,
        memory_mib=512,
        home=tmp_path / "home",
        programs=PROGRAMS,
        records=RECORDS,
        controller=Here({"PATH": str(tmp_path)}, where="on machine ctl"),
        kubeconfig=None,
        pids=lambda _: {1: "tidepool-init"},
        data=tmp_path,
        hosting=LocalHosting(tmp_path, "none"),
    )


def test_machines_without_flux_are_named_with_what_brings_it(testbed: Testbed) -> None:
    (told,) = KIND.missing(testbed)
    assert "on machine ctl, on machine m-1 of stack none, on machine m-2 of stack none: /opt/flux" in told
    assert "build the image debian-12-flux with TIDEPOOL_FOLDER_FLUX" in told


def test_of_machines_that_are_not_up_the_image_tells_and_what_is_not_built_does_not(
    testbed: Testbed, tmp_path: Path
) -> None:
    down = replace(testbed, pids=lambda _: {})
    assert KIND.missing(down) == ()
    with_flux, without = tmp_path / "with", tmp_path / "without"
    (with_flux / "opt/flux/bin").mkdir(parents=True)
    (with_flux / "opt/flux/bin/flux").touch()
    (told,) = KIND.missing(replace(down, image_roots={"ctl": with_flux, "m-1": without, "m-2": with_flux}))
    assert "there is no Flux on machine m-1 of stack none: /opt/flux/bin/flux is not there" in told


def test_options_are_refused(testbed: Testbed) -> None:
    with pytest.raises(LabError, match="flux has no options, and mode, queue are given; take `options` away"):
        KIND.open(testbed, {"queue": 1, "mode": 2})


def test_it_says_what_it_can_before_it_has_begun(testbed: Testbed) -> None:
    assert KIND.open(testbed, {}).can == {"gang", "array", "dependencies", "priority"}
