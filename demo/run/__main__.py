"""Runs a small workload on a cluster of its own, which is gone afterwards, and shows what is kept of it.

    .venv/bin/python -m demo.run [--stack dev] [--results FOLDER]

Exit code 0: the run succeeded, its picture is whole, and nothing is left of its cluster; else the run's own, or 1.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

_TIDEPOOL: Final = Path(sys.executable).with_name("tidepool")
_WORKLOAD: Final = Path(__file__).with_name("workload.yaml")
_GO_ON: Final = """\
Go on:
  {tidepool} run {stack} demo/run/workload.yaml --results {url}   # once more; two at one time, as well
  {tidepool} run {stack} YOURS.yaml --results s3://BUCKET/FOLDER --json   # of a pipeline: its exit code says which part failed
  {tidepool} reap --results {url}                                 # ends runs whose drivers are gone"""


def main() -> int:
    """Run it, look at what came of it, and show it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stack", default="dev", help="whose description the cluster has")
    parser.add_argument("--results", type=Path, default=Path("results"), help="where results are kept")
    given = parser.parse_args()
    results: Path = given.results.absolute()
    results.mkdir(parents=True, exist_ok=True)
    before = {each.name for each in results.iterdir()}
    words = [_TIDEPOOL, "run", given.stack, _WORKLOAD, "--results", results.as_uri()]
    code = subprocess.run(words, check=False).returncode
    new = [each for each in results.iterdir() if each.name not in before and (each / "run.json").exists()]
    if code or not new:
        return code or 1
    console, folder = Console(soft_wrap=True), new[0]
    record = json.loads((folder / "run.json").read_text())
    for table in (_phases(record), _jobs(record), _outputs(record)):
        console.print(table)
    picture = folder / "outputs" / "picture.png"
    if not picture.read_bytes().startswith(b"\x89PNG"):
        console.print(f"{picture} is no picture")
        return 1
    console.print(f"record: {folder / 'run.json'}, as a page {folder / 'index.html'}", highlight=False)
    console.print(f"chart: {folder / 'timeline.svg'}", highlight=False)
    console.print(f"result: {picture}", highlight=False)
    console.print("The run succeeded; nothing is left of its cluster.")
    console.print(_GO_ON.format(tidepool=_TIDEPOOL, stack=given.stack, url=results.as_uri()), highlight=False)
    return 0


def _phases(record: dict[str, Any]) -> Table:
    from datetime import datetime

    began = sorted((at, name) for name, at in record["began"].items() if "/" not in name)
    table = Table("phase", "seconds", box=None)
    table.columns[1].justify = "right"
    for (at, name), (ends, _) in itertools.pairwise(began):
        seconds = datetime.fromisoformat(ends) - datetime.fromisoformat(at)
        table.add_row(name, f"{seconds.total_seconds():.1f}")
    return table


def _jobs(record: dict[str, Any]) -> Table:
    table = Table("job", "outcome", "nodes", "CPU seconds", box=None)
    table.columns[3].justify = "right"
    for job in record["jobs"]:
        had = job["accounting"]
        table.add_row(job["name"], job["standing"], had.get("NodeList", ""), had.get("CPUTimeRAW", ""))
    return table


def _outputs(record: dict[str, Any]) -> Table:
    table = Table("output", "bytes", "SHA-256", box=None)
    for output in record["outputs"]:
        table.add_row(output["path"], str(output["size"]), f"{output['sha256'][:16]}...")
    return table


if __name__ == "__main__":
    sys.exit(main())
