"""Quotas of homes on real file systems that have quotas of projects, in a kernel that has them; and on one that has none."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.specs import spec_mapping
from tests.uml import run_in_kernel
from tidepool.clients.files import quota_agent
from tidepool.clients.files.homes import HomeFolder
from tidepool.clients.here import Here
from tidepool.cluster.spec_reading import read_spec

AGENT = Path(quota_agent.__file__)
MIB = 1 << 20

#: Two people, one of whom has a tree already, with names and links of all kinds.
_PROGRAM = """
modules("quota_v2")
os.mkdir("/mnt/h")
must("mount", "-t", "{kind}", "-o", "{options}", "/dev/ubda", "/mnt/h")
for name, uid in (("ada", 2001), ("bob", 2002)):
    os.makedirs(f"/mnt/h/{{name}}", exist_ok=True)
    os.chown(f"/mnt/h/{{name}}", uid, uid)
must("sh", "-c", '''cd ada && mkdir -p "sub/ a\nb" && head -c 300000 /dev/zero >"sub/ a\nb/old" && ln -s /etc/passwd link
    ln -s ../bob to-bob && mkfifo pipe && ln "sub/ a\nb/old" hard''', uid=0, cwd="/mnt/h")
must("chown", "-R", "-h", "2001:2001", "/mnt/h/ada")

def ask(verb, **more):
    request = dict(verb=verb, folder="/mnt/h", scope="dev", **more)
    told = json.loads(must("/usr/bin/python3", "-IS", "{agent}", stdin=json.dumps(request)))
    return told | {{"people": {{each["name"]: each for each in told["people"]}}}}

def write(name, uid, mib, to="f"):
    return run("dd", "if=/dev/zero", f"of=/mnt/h/{{name}}/{{to}}", "bs=64k", f"count={{mib * 16}}", "conv=fsync", uid=uid)[2]

"""


def program(kind: str, options: str = "prjquota") -> str:
    return _PROGRAM.format(kind=kind, options=options, agent=AGENT)


def disk(folder: Path, *mkfs: str) -> Path:
    made = folder / "disk"
    with made.open("wb") as file:
        file.truncate(320 * MIB)
    subprocess.run([*mkfs, str(made)], check=True, capture_output=True)
    return made


EXT4 = ("mke2fs", "-q", "-t", "ext4", "-O", "project,quota", "-E", "quotatype=prjquota")


@pytest.mark.parametrize(("kind", "mkfs"), [("ext4", EXT4), ("xfs", ("mkfs.xfs", "-q"))])
def test_who_goes_over_a_quota_is_refused_and_nobody_else(
    kind: str, mkfs: tuple[str, ...], tmp_path: Path
) -> None:
    said = run_in_kernel(
        tmp_path,
        program(kind)
        + """
say(first=ask("set", default=2 << 20, quotas={"bob": 5 << 20}))
say(ada=write("ada", 2001, 3), bob=write("bob", 2002, 3))
say(then=ask("read"))
# More for her, none for him: both at once.
say(more=ask("set", default=0, quotas={"ada": 20 << 20}))
say(ada=write("ada", 2001, 10), bob=write("bob", 2002, 30))
# What somebody else writes into a home counts there; outside of homes nothing does.
os.chmod("/mnt/h/ada", 0o777)
say(guest=write("ada", 2002, 30, "guest"))
# She takes her files out of their project; a look tells, and `set` mends it.
say(out=run("chattr", "-p", "0", "/mnt/h/ada", uid=2001)[0], outside=ask("read"))
say(mended=ask("set", default=0, quotas={"ada": 20 << 20}))
""",
        [disk(tmp_path, *mkfs)],
    )
    told: dict[str, Any] = {
        key: value for each in said for key, value in each.items() if key not in ("ada", "bob")
    }
    writes = [each for each in said if "ada" in each]
    first = told["first"]
    assert first["enforced"]
    assert first["kind"] == kind
    assert first["people"]["ada"]["quota"] == 2 * MIB
    # What was there counts, once for each file.
    assert 300_000 <= first["people"]["ada"]["used"] < 400_000
    assert "Disk quota exceeded" in str(writes[0]["ada"]) or "No space left" in str(writes[0]["ada"])
    assert "exceeded" not in str(writes[0]["bob"])
    assert told["then"]["people"]["ada"]["used"] <= 2 * MIB
    assert 3 * MIB <= told["then"]["people"]["bob"]["used"] <= 5 * MIB
    assert told["more"]["people"]["bob"]["quota"] == 0
    assert "copied" in str(writes[1]["ada"])
    assert "exceeded" not in str(writes[1])
    assert "No space" not in str(writes[1])
    assert "exceeded" in told["guest"] or "No space" in told["guest"]
    assert told["out"] == 0, "the kernel lets an owner do so"
    assert not told["outside"]["people"]["ada"]["whole"]
    assert told["mended"]["people"]["ada"]["whole"]
    assert told["mended"]["people"]["ada"]["used"] >= 10 * MIB


def test_a_file_system_that_counts_and_enforces_nothing_is_told_with_its_remedy(tmp_path: Path) -> None:
    said = run_in_kernel(
        tmp_path,
        program("ext4", "defaults")
        + """
before = ask("set", default=1 << 20, quotas={})
wrote = write("ada", 2001, 3)
must("sh", "-c", before["remedy"].rpartition(": ")[2])
say(before=before, wrote=wrote, after=ask("set", default=1 << 20, quotas={}), then=write("bob", 2002, 3))
""",
        [disk(tmp_path, *EXT4)],
    )
    (told,) = said
    before: Any = told["before"]
    after: Any = told["after"]
    assert (before["enforced"], before["counted"]) == (False, True)
    assert "copied" in str(told["wrote"])
    assert "exceeded" not in str(told["wrote"])
    assert after["enforced"], after
    assert "exceeded" in str(told["then"])


def test_a_file_system_without_quotas_changes_nothing_and_tells_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "file").write_text("hers")
    found = HomeFolder(Here(), str(tmp_path), "dev").set_quotas(1 << 20, {})
    if found.is_enforced:
        pytest.skip("this host enforces quotas of projects, which other tests are of")
    assert found.why
    assert found.remedy
    assert [each.quota for each in found.homes if each.name == "ada"] in ([None], [])


def test_quotas_of_the_site_s_own_are_left_as_they_are_where_the_spec_gives_none(tmp_path: Path) -> None:
    said = run_in_kernel(
        tmp_path,
        program("ext4")
        + f"""
import runpy
agent = runpy.run_path("{AGENT}")
def limit(project, quota):
    agent["limit"](os.open("/mnt/h", os.O_RDONLY), project, quota)
"""
        + """
# Hers is limited by the site, in a project of the site's.
must("chattr", "-p", "4711", "/mnt/h/ada")
must("chattr", "+P", "/mnt/h/ada")
limit(4711, 2 << 20)
say(scratch_alone=ask("set", default=0, quotas={}))
say(ada=write("ada", 2001, 3))
say(his=ask("set", default=0, quotas={"bob": 5 << 20}))
say(bob=write("bob", 2002, 8))
# The spec says his no more: it is lifted, once, and what the site says of it then stays.
say(lifted=ask("set", default=0, quotas={}))
say(bob=write("bob", 2002, 8))
must("chattr", "-p", "4712", "/mnt/h/bob")
must("chattr", "+P", "/mnt/h/bob")
limit(4712, 9 << 20)
say(again=ask("set", default=0, quotas={}))
say(all=ask("set", default=5 << 20, quotas={}))
""",
        [disk(tmp_path, *EXT4)],
    )
    told: dict[str, Any] = {}
    writes: list[tuple[str, str]] = []
    for each in said:
        for key, value in each.items():
            if key in ("ada", "bob"):
                writes.append((key, str(value)))
            else:
                told[key] = value["people"]  # type: ignore[index]
    assert told["scratch_alone"]["ada"]["quota"] == 2 * MIB
    assert told["scratch_alone"]["bob"]["quota"] == 0
    assert told["his"]["ada"]["quota"] == 2 * MIB
    assert (told["his"]["bob"]["quota"], told["his"]["bob"]["whole"]) == (5 * MIB, True)
    assert (told["lifted"]["ada"]["quota"], told["lifted"]["bob"]["quota"]) == (2 * MIB, 0)
    assert told["again"]["bob"]["quota"] == 9 * MIB
    assert [told["all"][name]["quota"] for name in ("ada", "bob")] == [5 * MIB, 5 * MIB]
    refused = [name for name, text in writes if "exceeded" in text or "No space" in text]
    assert refused == ["ada", "bob"], writes
    assert "copied" in writes[-1][1]


def test_the_remedy_for_an_export_is_what_a_spec_takes() -> None:
    said = quota_agent.remedy("nfs4", "nas:/export", "/home", counts=False)
    (line,) = re.findall(r"`(.*)`", said)
    assert read_spec(spec_mapping(**yaml.safe_load(line))).file_server is not None
