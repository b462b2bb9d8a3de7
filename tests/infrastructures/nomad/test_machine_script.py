"""The program that makes a machine of a host, run by a shell where mounts and namespaces are only noted down."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from tidepool.infrastructures.nomad.machine import machine_script

#: Notes its name and arguments; fails as often as its file of that name says.
_NOTES = """\
#!/bin/sh
name=${0##*/}
echo "$name $*" >>"$NOTES/log"
left=$(cat "$NOTES/$name" 2>/dev/null || echo 0)
test "$left" -gt 0 || exit 0
echo $((left - 1)) >"$NOTES/$name"
echo "$name: Invalid argument" >&2
exit 1
"""


def run(folder: Path, refusals: int) -> tuple[int, str, list[str]]:
    """Run it until the machine is there, or it has given up; return its exit code, what it says, and what it did."""
    for name in ("bin", "task", "notes"):
        (folder / name).mkdir()
    for name in ("unshare", "mount", "umount", "nsenter", "ip"):
        (folder / "bin" / name).write_text(_NOTES)
        (folder / "bin" / name).chmod(0o755)
    # Nothing is mounted; and what is held goes soon after who holds it.
    for name, does in (("mountpoint", "exit 1"), ("sleep", "exec /bin/sleep 0.05")):
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{does}\n")
        (folder / "bin" / name).chmod(0o755)
    (folder / "task/install").touch()
    (folder / "notes/unshare").write_text(f"{refusals}\n")
    (folder / "script").write_text(machine_script((), ()).replace("/run/tidepool", str(folder)))
    told = {
        "PATH": f"{folder}/bin:{os.environ['PATH']}",
        "NOMAD_ALLOC_ID": "alloc",
        "NOMAD_TASK_DIR": str(folder / "task"),
        "NOTES": str(folder / "notes"),
        "MACHINE": "",
        "ADDRESS": "",
        "INTERFACE": "eth0",
    }
    with subprocess.Popen(["sh", folder / "script"], env=told, stderr=subprocess.PIPE, text=True) as task:
        ends = time.monotonic() + 60
        while task.poll() is None and not (folder / "alloc/made").exists():
            assert time.monotonic() < ends
            time.sleep(0.02)
        task.terminate()
        _, said = task.communicate(timeout=60)
    return task.returncode, said, (folder / "notes/log").read_text().splitlines()


def test_a_namespace_that_the_kernel_refuses_to_keep_is_made_again(tmp_path: Path) -> None:
    code, said, did = run(tmp_path, refusals=2)
    assert (code, said) == (0, "")
    assert [each.partition(" ")[0] for each in did if each.startswith(("unshare", "nsenter"))] == [
        *("unshare",) * 3,
        "nsenter",
    ]


def test_one_that_it_never_keeps_is_told(tmp_path: Path) -> None:
    code, said, did = run(tmp_path, refusals=1000)
    assert (code, said) == (1, "unshare: Invalid argument\n")
    assert not any(each.startswith("nsenter") for each in did)
