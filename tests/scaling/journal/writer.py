"""A leader in a process of its own: it writes decisions, and says the number of each when its call has returned.

python writer.py FOLDER            until it is killed
python writer.py FOLDER BALLAST    until the disk is full; then it removes the file BALLAST, and writes once more
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

from tests.scaling.journal.values import a_cluster_state, a_decision
from tidepool.scaling.journal import open_journal
from tidepool.scaling.memory import Memory
from tidepool.scaling.ports import JournalError


def main(folder: str, ballast: str = "") -> None:
    """Write, and say so."""
    journal = open_journal(Path(folder), {})
    lease = journal.acquire("writer", datetime.now(UTC), 60)
    assert lease is not None
    number = 0
    while True:
        number += 1
        decision = a_decision(desired=f"cpu-[1-{number}]")
        try:
            (intent, *_) = journal.decided(lease, a_cluster_state(200), Memory(), decision)
        except JournalError as error:
            if not ballast:
                raise
            print(f"refused: {error}", flush=True)  # noqa: T201
            Path(ballast).unlink()
            ballast = ""
            continue
        print(f"{intent.decision} {number}", flush=True)  # noqa: T201
        if len(sys.argv) > 2 and not ballast:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
