"""Random switches of a pool's machines under load, with everything killed in between: nothing may be lost or left. Needs root.

Jobs and pods run all the time. Each switch is graceful or forced, with a short deadline and either policy; now and then it is
cancelled midway, or its command, whoever carries it out, slurmd, kubelet, containerd or the scaler is killed (kill -9). During
every step and after it all is checked from both sides and within the machines; at the end every job and pod is accounted for.

    python bench/switches.py [--switches 500] [--machines 4] [--seed 1] [--write docs/benchmarks/switches.md]

Exit code 1 at the first fault, with the switch that it came after: the same seed gives the same switches.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from bench import engine as engine_bench  # noqa: E402
from bench.local import scratch  # noqa: E402
from bench.page import add_page_option  # noqa: E402
from tests.golden import CONVERGED, golden_store  # noqa: E402
from tests.whole.breathing import Daemon  # noqa: E402
from tests.whole.pool_load import Load  # noqa: E402
from tests.whole.pool_watch import Watch  # noqa: E402
from tests.whole.pools import a_pool_cluster  # noqa: E402
from tests.whole.switching import BLOWS, Switching, switches  # noqa: E402
from tidepool.conversion.report import THESIS, Quantiles, quantiles, rows  # noqa: E402

#: All that is there is looked at after each so many switches, besides at the end.
_WHOLE_LOOK: Final = 50


def table_text(found: Sequence[Quantiles]) -> str:
    """The quantiles as a table of Markdown, with the thesis' figures below it."""
    lines = [
        "| direction | phase | conversions | p50 s | p90 s | p99 s | longest s |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {q.direction} | {q.phase} | {q.count} | {q.p50:.2f} | {q.p90:.2f} | {q.p99:.2f} | {q.longest:.2f} |"
        for q in found
    ]
    return "\n".join([*lines, "", f"{THESIS}.", ""])


def main() -> int:
    """Switch, and print or write what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--switches", type=int, default=500)
    parser.add_argument("--machines", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    add_page_option(parser)
    given = parser.parse_args()

    def tell(line: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    images = golden_store("debian-12", CONVERGED)
    began = time.monotonic()
    planned = []
    with scratch() as folder, ExitStack() as stack:
        # The scaler looks on, and is killed like the others; what a person just moved it leaves alone.
        pool = stack.enter_context(a_pool_cluster(folder, images, given.machines, minimum_stay_s=100_000))
        load = Load(pool, random.Random(given.seed))
        watch = Watch(pool)
        load.begin()
        run = Switching(pool, load, watch, Daemon.start(pool), tell)
        stack.callback(lambda: run.daemon.end() if run.daemon else None)
        stack.enter_context(watch.watching())
        for number, switch in enumerate(islice(switches(given.seed, pool.names), given.switches), start=1):
            planned.append(switch)
            run.step(number, switch)
            if number % _WHOLE_LOOK == 0:
                run.check_all()
        run.check_all()
        with pool.journal() as journal:
            conversions = journal.conversions(limit=100_000)
        watch.check(looks=given.switches)
    missed = [blow for blow in BLOWS if blow != "none" and run.struck[blow] < given.switches // 100]
    assert not missed, f"struck too seldom to say anything: {', '.join(missed)}"
    assert given.switches < 100 or {"done", "stopped"} <= set(run.ended)
    fates = Counter(work.fate for each in conversions for work in each.work)
    modes = Counter("forced" if switch.is_forced else "graceful" for switch in planned)
    head = (
        f"{time.strftime('%Y-%m-%d')}, {engine_bench.machine()}; {given.switches} switches of {given.machines} machines, seed "
        f"{given.seed}, in {(time.monotonic() - began) / 60:.0f} minutes."
    )
    lines = [
        head,
        "",
        "| | |",
        "|---|---|",
        f"| switches | {', '.join(f'{count} {mode}' for mode, count in modes.items())} |",
        f"| blows that struck | {', '.join(f'{count} {blow}' for blow, count in run.struck.most_common())} |",
        f"| outcomes | {', '.join(f'{count} {outcome}' for outcome, count in sorted(run.ended.items()))} |",
        f"| jobs | {len(load.jobs)} submitted, 0 lost |",
        f"| pods that nobody makes again | {len(load.pods)} made, 0 lost |",
        f"| work that conversions found | {', '.join(f'{count} {fate}' for fate, count in sorted(fates.items()))} |",
        f"| looks during switches, none with two roles | {watch.looks} at both sides, {watch.looks_inside} into machines |",
        f"| looks that met what was down | {watch.blind} |",
        "| left behind | nothing |",
        "",
        table_text(quantiles(rows(conversions))),
    ]
    text = "\n".join(lines)
    sys.stdout.write(text)
    if given.write:
        given.write.write(text)
    return 0


if __name__ == "__main__":
    if os.geteuid() != 0:
        raise SystemExit("machines are root's: run it with sudo")
    sys.exit(main())
