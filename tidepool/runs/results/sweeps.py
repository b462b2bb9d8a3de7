"""Records of sweeps where the results of their runs are, by which they can be opened again without a cluster.

```
 URL/sweeps/SWEEP/sweep.json       what was varied, and the runs' ids; written before the first of them begins
 URL/sweeps/SWEEP/index.html       what came of it, with chart.svg and chart.png
 URL/RUN/run.json                  the record of each run
```
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from tidepool.charts import DrawingError
from tidepool.charts.spread import write_spread_chart
from tidepool.runs.ports import RunError
from tidepool.runs.results.records import SWEEPS, StoredRecords
from tidepool.runs.results.store import Store
from tidepool.runs.sweeps.comparison import Comparison, compare
from tidepool.runs.sweeps.page import panels, sweep_page
from tidepool.runs.sweeps.sweep import Sweep, from_json, to_json

_CHARTS: Final = ("chart.svg", "chart.png")


class StoredSweeps:
    """Sweeps in a place of results."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def write(self, sweep: Sweep) -> None:
        """Keep its record."""
        self._store.write(_name(sweep.id, "sweep.json"), to_json(sweep).encode())

    def read(self, id: str) -> Sweep:
        """Return a sweep.

        Raises:
            RunError: there is none, or it cannot be read.
        """
        name = _name(id, "sweep.json")
        try:
            return from_json(self._store.read(name).decode())
        except FileNotFoundError:
            known = sorted({each.split("/")[1] for each in self._store.names(f"{SWEEPS}/")})
            there = f"there are {', '.join(known)}" if known else "there is none at all"
            raise RunError(f"{self._store.location(name)} is not there; {there}") from None
        except ValueError as error:
            raise RunError(f"{self._store.location(name)}: {error}") from error

    def compared(self, sweep: Sweep) -> Comparison:
        """Return the comparison of its runs, by their records there."""
        records = StoredRecords(self._store)
        return compare(sweep, {each.id: records.read(each.id) for each in sweep.runs})

    def publish(self, found: Comparison) -> str:
        """Write its page and its charts; returns where the page is."""
        id = found.sweep.id
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / name for name in _CHARTS]
            try:
                draw(found, *paths)
            except DrawingError:
                paths = []  # no run has succeeded, which the page says
            for path in paths:
                self._store.write(_name(id, path.name), path.read_bytes())
        page = _name(id, "index.html")
        self._store.write(page, sweep_page(found, _CHARTS[0] if paths else "").encode())
        return self._store.location(page)


def draw(found: Comparison, *paths: Path) -> None:
    """Write its chart to each of ``paths``: SVG or PNG, by their suffixes.

    Raises:
        DrawingError: no run has succeeded, the suffix is another, or the file cannot be written.
    """
    write_spread_chart(panels(found), ", ".join(found.sweep.varied), *paths, title=found.sweep.id)


def _name(id: str, file: str) -> str:
    return f"{SWEEPS}/{id}/{file}"
