"""One verb, and what it says."""

from __future__ import annotations

import json
import sys

from tidepool.infrastructures.ssh.keeper.claims import claim, note, release
from tidepool.infrastructures.ssh.keeper.facts import facts
from tidepool.infrastructures.ssh.keeper.store import Locked


def main(argv: list[str]) -> None:
    verb, told = argv[1], json.loads(argv[2])
    if verb == "facts":
        answer = facts(told)
    else:
        with Locked():
            answer = {"claim": claim, "note": note, "release": release}[verb](told)
    sys.stdout.write(json.dumps(answer) + "\n")
