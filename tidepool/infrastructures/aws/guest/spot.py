"""Watches for AWS taking a spot machine back, which it says two minutes before, and drains the node in Slurm.

A unit of the machine runs it as root, with the node's name. A bare interpreter is all it needs.
"""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

IMDS = "http://169.254.169.254"
LOOK_S = 5.0


def notice(imds: str = IMDS) -> str:
    """When the machine goes, as AWS says it; empty while it says nothing."""
    ttl = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    with urllib.request.urlopen(
        urllib.request.Request(f"{imds}/latest/api/token", headers=ttl, method="PUT"), timeout=5
    ) as answer:
        token = {"X-aws-ec2-metadata-token": answer.read().decode()}
    asked = urllib.request.Request(f"{imds}/latest/meta-data/spot/instance-action", headers=token)
    try:
        with urllib.request.urlopen(asked, timeout=5) as answer:
            return str(json.load(answer)["time"])
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return ""
        raise


def drain(node: str, when: str) -> list[str]:
    reason = f"spot: AWS takes it back at {when}"
    return ["scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}"]


def watch(
    node: str,
    notice: Callable[[], str] = notice,
    run: Callable[..., Any] = subprocess.run,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Until the node is drained: Slurm may be busy, and is asked again."""
    while True:
        try:
            when = notice()
        except (OSError, ValueError, KeyError) as error:
            print(f"no answer of the metadata: {error}", file=sys.stderr, flush=True)
            when = ""
        if when:
            ended = run(drain(node, when), check=False, timeout=30)
            if ended.returncode == 0:
                print(f"drained: AWS takes it back at {when}", file=sys.stderr, flush=True)
                return
        sleep(1.0 if when else LOOK_S)


if __name__ == "__main__":
    watch(sys.argv[1])
