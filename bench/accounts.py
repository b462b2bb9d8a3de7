"""A department's accounts: what they add to an `up` of this machine. Needs root.

Each round is from nothing, turn about: a cluster with slurmdbd and no accounts, and the same with 200 accounts below 20
others' parents and 1,000 users with keys and homes; then an `up` that changes nothing, and one that changes one account's limit. Beside them
Slurm's own way with the same tree: one `sacctmgr load` of a file, and a command of sacctmgr for each of the first 20
users. The figures are medians.

    python bench/accounts.py [--accounts 200] [--users 1000] [--rounds 3] [--write docs/benchmarks/accounts.md]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from bench import engine as engine_bench  # noqa: E402
from bench.local import Stack, scratch  # noqa: E402
from bench.page import add_page_option  # noqa: E402
from tests.golden import golden_store  # noqa: E402
from tidepool.clients.slurm.accounting import Accounting, Association  # noqa: E402
from tidepool.cluster.accounts import Account  # noqa: E402
from tidepool.infrastructures.connection import transport  # noqa: E402

#: Of the issue: what is added to an `up` without accounts, in seconds.
TARGETS_S: Final = {"from nothing": 10.0, "a changed limit": 2.0}
CONTROLLER: Final = {"shape": {"cpus": 2, "memory_mib": 2048}, "accounting": {}}
_ONE_BY_ONE: Final = 20
_UID: Final = 10_000
_KEY: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFPHqMvlfHPfJ4dvKXcY4u+FDTZg6Rb1dSLrgQK8bLkG"


def tree(accounts: int, users: int) -> list[dict[str, Any]]:
    """Accounts of which each tenth is at the top and the next nine below it, with limits; users in turns."""
    found: list[dict[str, Any]] = []
    for number in range(accounts):
        top = number - number % 10
        found.append(
            {
                "name": f"account{number}",
                **({"parent": f"account{top}"} if number != top else {}),
                "shares": 1 + number % 7,
                "limits": {"GrpTRES": f"cpu={64 + number}", "MaxJobs": 100},
                "users": [f"user{user}" for user in range(number, users, accounts)],
            }
        )
    return found


def measure(folder: Path, images: Path, accounts: list[dict[str, Any]], tell: Any) -> None:
    """One round: what each took goes to ``tell``, by who and what."""
    for who, spec in (("without", []), ("with", accounts)):
        stack = Stack(folder / who, images, "embedded", 0)
        names = sorted({user for each in spec for user in each["users"]})
        users = [{"name": name, "uid": _UID + i, "keys": [_KEY]} for i, name in enumerate(names)]
        more: dict[str, Any] = {"controller": CONTROLLER, "accounts": spec, "users": users}
        try:
            stack.write(0, **more)
            tell(who, "from nothing", stack.run("up", "--yes"))
            tell(who, "no change", stack.run("up", "--yes"))
            if not spec:
                tell(who, "a changed limit", stack.run("up", "--yes"))
                by_hand(folder / who / "data", accounts, tell)
                continue
            spec[0]["limits"]["MaxJobs"] += 1
            stack.write(0, **more)
            tell(who, "a changed limit", stack.run("up", "--yes"))
        finally:
            stack.run("down", "--yes", "--purge")


def by_hand(data: Path, accounts: list[dict[str, Any]], tell: Any) -> None:
    """The same tree as a person with sacctmgr has it, on the controller."""
    way = transport({"kind": "local", "stack": "bench", "machine": "ctl"}, data)
    read = [Account.model_validate(each) for each in accounts]
    entries = [Association(each.name, parent=each.parent or "", limits=each.limits) for each in read]
    entries += [Association(each.name, user.name) for each in read for user in each.users]
    begun = time.perf_counter()
    Accounting(way, "bench").set_associations(entries)
    tell("sacctmgr load", "from nothing", time.perf_counter() - begun)
    begun = time.perf_counter()
    for number in range(_ONE_BY_ONE):
        argv = ["sacctmgr", "-i", "add", "user", f"other{number}", "account=account0"]
        way.run(argv, timeout_s=60)
    each_s = (time.perf_counter() - begun) / _ONE_BY_ONE
    tell("sacctmgr add, each", "from nothing", each_s)


def page(figures: dict[tuple[str, str], list[float]], options: argparse.Namespace) -> str:
    """The table in Markdown."""
    medians = {key: statistics.median(times) for key, times in figures.items()}
    lines = [
        f"{time.strftime('%Y-%m-%d')}, {engine_bench.machine()}, {options.accounts} accounts, {options.users} users, medians of {options.rounds} rounds.",
        "",
        "| `up` | without accounts, s | with them, s | added, s | target |",
        "|---|---:|---:|---:|---|",
    ]
    for what in ("from nothing", "no change", "a changed limit"):
        before, after = medians["without", what], medians["with", what]
        target = f"<= {TARGETS_S[what]:g} s" if what in TARGETS_S else ""
        lines.append(f"| {what} | {before:.2f} | {after:.2f} | {after - before:.2f} | {target} |")
    change_s = medians["with", "a changed limit"] - medians["with", "no change"]
    load, one = medians["sacctmgr load", "from nothing"], medians["sacctmgr add, each", "from nothing"]
    lines += [
        "",
        f"Of the same cluster, an `up` with a changed limit takes {change_s:.2f} s longer than one that changes nothing.",
        f"By hand: one `sacctmgr load` of the tree {load:.2f} s; one `sacctmgr add user` {one:.2f} s.",
    ]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print the table, and write it where it is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--accounts", type=int, default=200)
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    add_page_option(parser)
    options = parser.parse_args(argv)
    figures: dict[tuple[str, str], list[float]] = defaultdict(list)
    for number in range(options.rounds):
        with scratch() as folder:

            def tell(who: str, what: str, seconds: float, number: int = number) -> None:
                figures[who, what].append(seconds)
                sys.stderr.write(f"{number + 1}: {who}, {what}: {seconds:.2f} s\n")

            measure(folder, golden_store(), tree(options.accounts, options.users), tell)
    text = page(figures, options)
    sys.stdout.write(f"{text}\n")
    if options.write:
        options.write.write(text)


if __name__ == "__main__":
    main()
