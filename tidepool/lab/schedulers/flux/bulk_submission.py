"""Submits several jobs in one go. It runs on the leader's machine, alone, by `flux python`, whose library it needs.

stdin has ``{"jobs": [{"name", "jobspec", "urgency", "after"}], "ids": {name: id}}`` in JSON, ``ids`` of jobs submitted before. stdout gets the
ids of those that Flux accepted, ``{name: id}``, and stderr a line for each that it refused.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import flux
import flux.job


def main() -> None:
    """Read, submit, and tell what came of it."""
    given = json.load(sys.stdin)
    handle, ids = flux.Flux(), given["ids"]
    under_way: dict[str, Any] = {}

    def settle(name: str) -> None:
        """Learn what came of a job that is under way."""
        try:
            ids[name] = str(int(under_way.pop(name).get_id()))
        except OSError as error:
            sys.stderr.write(f"{name}: {error}\n")

    for job in given["jobs"]:
        # Only who waits for another has to know its id; all others are under way together.
        for name in set(job["after"]) & set(under_way):
            settle(name)
        if lost := [name for name in job["after"] if name not in ids]:
            sys.stderr.write(f"{job['name']}: it waits for {', '.join(lost)}, which Flux does not have\n")
            continue
        if job["after"]:
            system = job["jobspec"]["attributes"]["system"]
            system["dependencies"] = [{"scheme": "afterok", "value": ids[name]} for name in job["after"]]
        text = json.dumps(job["jobspec"])
        under_way[job["name"]] = flux.job.submit_async(handle, text, urgency=job["urgency"])
    for name in list(under_way):
        settle(name)
    json.dump({job["name"]: ids[job["name"]] for job in given["jobs"] if job["name"] in ids}, sys.stdout)


main()
