"""One story: a random cluster, what people and accidents do to it for some days, and its end."""

from __future__ import annotations

from datetime import timedelta
from random import Random

from tests.simulation.accidents import Accidents
from tests.simulation.laws import Laws
from tests.simulation.machines import FaultyCluster, faulty_scaler
from tests.simulation.specs import random_spec
from tests.simulation.workloads import Workload
from tidepool.cluster.scaling import Queue, Scaling
from tidepool.cluster.spec import ClusterSpec, Limits
from tidepool.scaling.decide.decide import decide
from tidepool.scaling.decide.remember import remember
from tidepool.simulation.cluster import Speeds

#: After the last job has ended: idle time-outs, the longest pause after failures, and something more.
_QUIET_S = 86400.0
#: What is left of the queue is done by then.
_DONE_S = 30 * 86400.0


class Story:
    """The story of ``seed``. The same seed tells the same."""

    def __init__(self, seed: int, days: float, *, jobs_a_day: float = 12, accidents_a_day: float = 2) -> None:
        random = Random(seed)
        self.days = days
        self.cluster = FaultyCluster(
            random_spec(random), speeds=Speeds(look=1), backfill=random.random() < 0.7
        )
        self.laws = Laws(self.cluster, decide)
        self.daemon = self.cluster.run_scaler(
            lambda: faulty_scaler(self.cluster, decide=self.laws.decide, remember=remember)
        )
        self.workload = Workload(self.cluster, Random(seed + 1), days, jobs_a_day)
        self.accidents = Accidents(
            self.cluster, self.laws, self.daemon, Random(seed + 2), days, accidents_a_day
        )

    def tell(self) -> None:
        """Run it, to its end and to the silence after it.

        Raises:
            Broken: a law does not hold.
        """
        cluster, queue = self.cluster, self.cluster.slurm.queue
        cluster.run(self.days * 86400)
        self._end_accidents()
        cluster.bring_up(without_floors_and_limits(cluster.spec))
        done = cluster.run(_DONE_S, until=self._is_done)
        self.laws.must(
            done, f"these jobs still wait or run: {[*queue.waiting.values(), *queue.running.values()]}"
        )
        self.laws.judge_end(self.workload.submitted)
        quiet = cluster.run(_QUIET_S, until=lambda: not left(cluster))
        self.laws.must(quiet, f"this is left: {left(cluster)}")

    def _is_done(self) -> bool:
        queue = self.cluster.slurm.queue
        if queue.waiting and not queue.running:
            self.workload.give_up_the_hopeless()
        return not (queue.waiting or queue.running)

    def _end_accidents(self) -> None:
        """Those that are under way end in time; what a person holds is put back."""
        self.cluster.run(timedelta(hours=3).total_seconds())


def without_floors_and_limits(spec: ClusterSpec) -> ClusterSpec:
    """The spec, so that whatever waits is served, and nothing is there for anything else."""
    fleets = tuple(fleet.model_copy(update={"min_nodes": 0}) for fleet in spec.fleets)
    return spec.model_copy(
        update={
            "fleets": fleets,
            "limits": Limits(),
            "scaling": Scaling(policies=(Queue(),), boot_timeout_s=spec.scaling.boot_timeout_s),
        }
    )


def left(cluster: FaultyCluster) -> str:
    """What there is of a cluster that should have nothing; empty where that is so."""
    kept = cluster.journal.kept()
    nodes = [node.name for node in cluster.slurm.all_nodes() if not node.state.is_slot]
    desired = {fleet: str(names) for fleet, names in (kept.desired or {}).items() if names}
    memory = kept.memory
    found = {
        "machines": cluster.machines.running(),
        "nodes": nodes,
        "recorded": list(cluster.stack.recorded),
        "wish": desired,
        "intents": cluster.journal.open_intents(),
        "launches": dict(memory.launches),
        "drains": dict(memory.drains),
        "strays": dict(memory.strays),
    }
    return "; ".join(f"{what}: {value}" for what, value in found.items() if value)
