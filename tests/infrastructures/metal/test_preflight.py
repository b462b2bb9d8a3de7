"""What hosts lack of what a spec asks of them: all of it at once, in previews and by `doctor`; and the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.infrastructures.metal.bmcs import bmcs, signed_for_itself
from tests.infrastructures.metal.specs import HOSTS, spec
from tests.infrastructures.nomad.test_page import options
from tests.repository import ROOT
from tidepool.cluster.failures import Note, Permanent, unmarked
from tidepool.infrastructures.boot_media.checks import boot_service_lacks
from tidepool.infrastructures.boot_media.media import Kept
from tidepool.infrastructures.boot_media.service import service
from tidepool.infrastructures.metal import preflight
from tidepool.infrastructures.metal.inventory import Facts
from tidepool.infrastructures.metal.options import Host, Offering, SiteOptions
from tidepool.infrastructures.metal.preflight import Answers, demands, described, lacks
from tidepool.infrastructures.metal.reading import read_options
from tidepool.infrastructures.metal.redfish import Silent
from tidepool.infrastructures.metal.resting import Failures
from tidepool.resources.kind import Home

FIT = Facts("Off", cpus=64, memory_mib=262144, media=("CD",))
PAGE = (ROOT / "docs/infrastructures/metal.md").read_text()


def found(answers: Answers, **fleet: int) -> tuple[list[str], list[str]]:
    """What is lacking, and what is noted."""
    asked = spec(fleet=fleet)
    every = lacks(demands(asked, "one", read_options(asked)), answers)
    return (
        [unmarked(each)[0] for each in every if isinstance(each, str)],
        [each.text for each in every if isinstance(each, Note)],
    )


def test_fit_hosts_lack_nothing_and_those_that_are_ours_already_neither() -> None:
    ours = Facts("On", "tidepool:one/cpu-1/00000000", cpus=64, memory_mib=262144, media=("CD",))
    assert found({"head": FIT, "alpha": ours, "beta": FIT}, min_nodes=2) == ([], [])


def test_a_shape_larger_than_any_host_is_told_with_each_hosts_reason() -> None:
    small = Facts("Off", cpus=4, memory_mib=1024, media=("CD",))
    (lack,), _ = found({"head": FIT, "alpha": small, "beta": Silent("nothing answers")})
    assert "fleets[0].infrastructures[0].options: none of its hosts is fit: alpha: it has 4 cpus" in lack
    assert "1024 MiB of memory" in lack


def test_all_that_is_wrong_is_told_at_once_and_one_host_that_is_down_holds_up_nobody() -> None:
    answers: Answers = {
        "head": Permanent("https://10.9.1.1 does not take the user and the password in /x: correct them"),
        "alpha": Silent("nothing answers at https://10.9.1.2"),
        "beta": Facts(
            "Off", "tidepool:two/x-1/00000000", cpus=64, memory_mib=262144, media=("CD",), macs=("aa",)
        ),
    }
    wrong, noted = found(answers, min_nodes=1)
    path = "controller.infrastructure.options"
    assert f"{path}.hosts.head: https://10.9.1.1 does not take the user" in wrong[0]
    assert f"{path}.hosts.beta.mac: 52:54:00:00:00:03 is none of its interfaces, which are aa" in wrong[1]
    assert "1 machines are wanted at least, and 0 hosts are fit and nobody else's" in wrong[-1]
    assert [f"{path}.hosts.alpha: nothing answers" in noted[0], "node x-1 of the stack two" in noted[1]] == [
        True
    ] * 2


def test_bmcs_with_a_wrong_certificate_or_password_are_told_at_once_by_previews_and_doctor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for real, at sushy-tools by HTTPS."""
    monkeypatch.setattr(preflight, "boot_service_lacks", lambda _: "")
    context, ca = signed_for_itself(tmp_path)
    wrong = tmp_path / "wrong"
    wrong.write_text("operator:calvin\n")
    wrong.chmod(0o600)
    with bmcs(*HOSTS, context=context) as made:
        made.firmware = {"BMC": "6.10.80"}
        entries = {name: made.entry(name) for name in HOSTS}
        hosts = {
            name: {"bmc": made.url, "system": entry.location.system, "mac": entry.mac, "ca": str(ca)}
            for name, entry in entries.items()
        }
        del hosts["head"]["ca"]
        hosts["alpha"]["credentials"] = str(wrong)
        asked = spec(hosts=hosts, credentials=entries["head"].location.credentials)
        told = [
            *preflight.PREFLIGHT.lacks(demands(asked, "one", read_options(asked)), Home(tmp_path, tmp_path))
        ]
        found = [*preflight.checks_of(asked, "one", tmp_path)]
    for lacking in (told, [each.detail for each in found if each.state == "lacks"]):
        untrusted, refused = map(str, lacking[:2])
        assert f".hosts.head: the host head: the certificate of {made.url} is not trusted (" in untrusted
        assert "name who signs it in ca" in untrusted
        assert (
            f".hosts.alpha: the host alpha: {made.url} does not take the user and the password in {wrong}"
            in refused
        )
    (beta,) = [each.detail for each in found if each.what == "host beta"]
    assert "BIOS 2.1.0, BMC 6.10.80" in beta
    assert "calvin" not in f"{told}{found}"


def test_a_boot_service_that_does_not_run_or_is_another_is_told_with_the_command(tmp_path: Path) -> None:
    server = service(tmp_path, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.server_address[1]}"
    server.server_close()
    said = boot_service_lacks(url)
    assert "does not answer" in said
    assert "python -m tidepool.infrastructures.boot_media.service --listen ADDRESS:PORT" in said


def test_a_host_is_described_in_a_line() -> None:
    told = Facts(
        "On", "tidepool:one/cpu-1/00000000", 64, 1024, "Dell R6525", "45Z", "2.1", "OK", firmware={"NIC": "7"}
    )
    assert described(told) == (
        "Dell R6525, serial number 45Z, 64 cpus, 1024 MiB, BIOS 2.1, NIC 7, health OK, on, node cpu-1 of stack one"
    )


@pytest.mark.parametrize(
    ("heading", "part"),
    [("| of the place |", SiteOptions), ("| of a host |", Host), ("| of an offering |", Offering)],
)
def test_every_option_is_in_its_table_and_no_other(heading: str, part: type) -> None:
    lines = PAGE.partition(heading)[2].partition("\n\n")[0].splitlines()[2:]
    assert {name for line in lines for name in re.findall(r"`([a-z_]+)`", line.split("|")[1])} == options(
        part
    )


def test_passwords_are_no_option() -> None:
    assert not {name for part in (SiteOptions, Host, Offering) for name in part.model_fields} & {
        "password",
        "user",
    }
    assert "credentials" in {*Host.model_fields}
    assert HOSTS


def test_a_host_that_failed_is_told_by_doctor_and_previews_and_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "ask", lambda asked: dict.fromkeys(asked.hosts, FIT))
    monkeypatch.setattr(preflight, "boot_service_lacks", lambda _: "")
    Failures(Kept(tmp_path, "one")).note("alpha", "it did not boot")
    asked = spec()
    told = [each for each in preflight.checks_of(asked, "one", tmp_path) if "failed once" in each.detail]
    assert [(each.what, each.state) for each in told] == [("host alpha", "note")]
    assert str(tmp_path / "one/metal/failures/alpha.json") in told[0].detail
    lacking = [
        *preflight.PREFLIGHT.lacks(demands(asked, "one", read_options(asked)), Home(tmp_path, tmp_path))
    ]
    assert all(isinstance(each, Note) for each in lacking)
    assert [
        each.text for each in lacking if isinstance(each, Note) and "hosts.alpha: it failed once" in each.text
    ]
