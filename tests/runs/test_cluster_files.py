"""The folder of a run on its cluster: inputs that come, outputs that are found, kept and verified; by the agent, on this machine."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.runs.results.sources import LARGE
from tests.runs.workloads import job, workload
from tidepool.clients.here import Here
from tidepool.clients.transport import Completed, Transport, Unreachable
from tidepool.runs.cluster_files import ClusterFiles
from tidepool.runs.ports import Refused, RunError
from tidepool.runs.record import Output
from tidepool.runs.results import open_store
from tidepool.runs.results.store import PART


class Site:
    """A folder of a run, and one for results."""

    def __init__(self, folder: Path, transport: Transport | None = None, **more: Any) -> None:
        self.run, self.results, self.elsewhere = folder / "run", folder / "results", folder / "elsewhere"
        for each in (self.results, self.elsewhere):
            each.mkdir(exist_ok=True)
        self.store = open_store(self.results.as_uri(), {})
        self.files = ClusterFiles(
            transport or Here(),
            "",
            str(self.run),
            "r1",
            workload(job(), **more),
            self.store,
            lambda url: open_store(url, {}),
        )

    def put(self, path: str, content: bytes = b"x") -> None:
        (self.run / path).parent.mkdir(parents=True, exist_ok=True)
        (self.run / path).write_bytes(content)


class Breaking:
    """A way to this machine that breaks after so many commands."""

    where = "on a line that breaks"

    def __init__(self, commands: int) -> None:
        self.left, self._behind = commands, Here()

    def run(self, argv: Any, *, stdin: str = "", timeout_s: float) -> Completed:
        if not self.left:
            raise Unreachable("it broke", where=self.where, remedy="mend it")
        self.left -= 1
        return self._behind.run(argv, stdin=stdin, timeout_s=timeout_s)

    def close(self) -> None: ...


def test_inputs_come_whole_and_once(tmp_path: Path) -> None:
    inputs = [
        {"url": f"{tmp_path.as_uri()}/elsewhere/a%20b", "path": "in/one"},
        {"url": f"{tmp_path.as_uri()}/elsewhere/empty", "path": "two"},
    ]
    site = Site(tmp_path, inputs=inputs)
    (site.elsewhere / "a b").write_bytes(LARGE)
    (site.elsewhere / "empty").write_bytes(b"")
    site.files.stage()
    assert (site.run / "in/one").read_bytes() == LARGE
    assert (site.run / "two").read_bytes() == b""
    before = (site.run / "in/one").stat()
    site.files.stage()
    assert (site.run / "in/one").stat().st_mtime_ns == before.st_mtime_ns


def test_an_input_that_was_cut_off_is_gone_on_with(tmp_path: Path) -> None:
    inputs = [{"url": f"{tmp_path.as_uri()}/elsewhere/x", "path": "x"}]
    # The folder, its state, and the first part.
    site = Site(tmp_path, Breaking(3), inputs=inputs)
    (site.elsewhere / "x").write_bytes(LARGE)
    with pytest.raises(RunError, match="it broke"):
        site.files.stage()
    assert not (site.run / "x").exists()
    assert (site.run / ".staging/x").stat().st_size == PART
    Site(tmp_path, Breaking(5), inputs=inputs).files.stage()
    assert (site.run / "x").read_bytes() == LARGE


def test_an_input_that_is_not_there_is_refused(tmp_path: Path) -> None:
    site = Site(tmp_path, inputs=[{"url": f"{tmp_path.as_uri()}/elsewhere/nix", "path": "x"}])
    with pytest.raises(Refused, match=r"the input file:///.*/nix is not there; mend its URL"):
        site.files.stage()


def test_outputs_are_what_matches_and_is_the_run_s(tmp_path: Path) -> None:
    globs = ["out/*", "**/*.log", "*.h5"]
    site = Site(
        tmp_path, outputs=globs, inputs=[{"url": f"{tmp_path.as_uri()}/elsewhere/a", "path": "out/input"}]
    )
    for path in (
        "out/a",
        "out/ü b",
        "out/input",
        "x.log",
        "deep/er/y.log",
        "deep/er/y.txt",
        ".staging/z.log",
    ):
        site.put(path, path.encode())
    (site.run / "out/folder").mkdir()
    (site.run / "out/within").symlink_to(site.run / "x.log")
    (site.run / "out/beyond").symlink_to("/etc/hostname")
    (site.run / "out/broken").symlink_to("nowhere")
    listed = site.files.list()
    assert [output.path for output in listed.outputs] == [
        "deep/er/y.log",
        "out/a",
        "out/within",
        "out/ü b",
        "x.log",
    ]
    assert listed.outputs[1] == Output("out/a", 5, hashlib.sha256(b"out/a").hexdigest())
    assert listed.unmatched == ("*.h5",)


def test_outputs_are_kept_and_verified(tmp_path: Path) -> None:
    site, kept = Site(tmp_path, outputs=["*"]), list[Output]()
    site.put("large", LARGE)
    site.put("empty", b"")
    outputs = site.files.list().outputs
    site.files.upload(outputs, kept.append)
    assert sorted(output.path for output in kept) == ["empty", "large"]
    assert (site.results / "r1/outputs/large").read_bytes() == LARGE
    assert site.files.verify(outputs) == ()
    (site.results / "r1/outputs/large").write_bytes(b"!" + LARGE[1:])
    assert [output.path for output in site.files.verify(outputs)] == ["large"]


def test_an_output_that_changes_while_it_is_kept_is_told(tmp_path: Path) -> None:
    site = Site(tmp_path, outputs=["*"])
    site.put("x", b"first")
    outputs = site.files.list().outputs
    site.put("x", b"other")
    with pytest.raises(RunError, match="r1/outputs/x changes while it is kept; see what still writes to it"):
        site.files.upload(outputs, lambda _: None)
    site.put("x", b"s")
    with pytest.raises(RunError, match="x became shorter while it was kept"):
        site.files.upload(outputs, lambda _: None)
    site.files.abandon()
    assert site.store.names("") == site.store.unfinished("") == []
