"""`make demo-run`: from a description to a picture, its record and chart, and nothing else."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from tests.whole.cluster import LONG_S, ROOT
from tests.whole.runs import Runs, ended


@pytest.mark.slow
def test_the_demo_leaves_a_picture_a_record_and_a_chart_and_nothing_else(
    images: Path, tmp_path: Path
) -> None:
    spec = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text())["config"]["cluster:spec"]
    with ended(Runs.make(tmp_path, images, **spec)) as runs:
        (runs.project.folder / "demo").symlink_to(ROOT / "demo")
        results = tmp_path / "results"
        done = subprocess.run(
            [sys.executable, "-m", "demo.run", "--stack", runs.project.stack, "--results", str(results)],
            cwd=runs.project.folder,
            env=runs.project.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=2 * LONG_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "The run succeeded; nothing is left of its cluster." in done.stdout
        (run,) = runs.ids()
        record = runs.check_ended(run)
        runs.check_nothing_left()
        assert record.outcome == "succeeded"
        picture = runs.read(run, "picture.png")
        assert picture[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", picture[16:24]) == (480, 320)
        chart = ET.fromstring((results / run / "timeline.svg").read_text())
        titles = {title.text for title in chart.iter("{http://www.w3.org/2000/svg}title")}
        assert {"up", "running", "down"} <= titles
        assert json.loads((results / run / "run.json").read_text())["cost"]["node_hours"].keys() >= {
            "",
            "cpu",
        }
