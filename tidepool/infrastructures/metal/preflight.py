"""Preflight of bare metal: the demands of a spec, compared with what hosts have, in previews and by `tidepool doctor`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidepool.cluster.failures import InfrastructureError, Note, marked
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.boot_media.checks import boot_service_lacks
from tidepool.infrastructures.boot_media.media import Kept
from tidepool.infrastructures.finding import Finding, Preflight, findings, gathered
from tidepool.infrastructures.metal.inventory import Facts, Need, taken, unfit
from tidepool.infrastructures.metal.machine import HostEntry
from tidepool.infrastructures.metal.machine import ask as ask_hosts
from tidepool.infrastructures.metal.reading import NAME, Options, entries_of, need_of, read_options
from tidepool.infrastructures.metal.redfish import Silent
from tidepool.infrastructures.metal.resting import Failures
from tidepool.infrastructures.reading import has_own_machines

if TYPE_CHECKING:
    from tidepool.resources.kind import Home


@dataclass(frozen=True, slots=True)
class Demand:
    """Machines of one shape that are asked for at ``path``: so many at least, on some of ``hosts``."""

    path: str
    cpus: int = field(metadata={"least": 1})
    memory_mib: int = field(metadata={"least": 1})
    hosts: tuple[str, ...]
    machines: int = 0
    bios: Mapping[str, Any] = field(default_factory=dict)

    @property
    def need(self) -> Need:
        return Need(self.cpus, self.memory_mib, self.bios)


@dataclass(frozen=True, slots=True)
class Demands:
    """All demands of a stack. ``path`` is where the options of the place stand."""

    stack: str
    path: str
    boot_service: str
    hosts: Mapping[str, HostEntry]
    demands: tuple[Demand, ...] = ()


def demands(spec: ClusterSpec, stack: str, options: Options) -> Demands:
    """Return all that a stack asks of its hosts, fleets with ``min_nodes``."""
    place = options.place
    return Demands(stack, options.path, place.boot_service, entries_of(place), _demands(spec, options))


@gathered
def _demands(spec: ClusterSpec, options: Options) -> Iterator[Demand]:
    everyone = tuple(options.place.hosts)
    if has_own_machines(spec, NAME):
        own = options.place.machines
        need = need_of(spec.controller.shape, own)
        yield Demand(
            f"{options.path}.machines",
            need.cpus,
            need.memory_mib,
            own.hosts or everyone,
            len(spec.own_hosts),
            need.bios,
        )
    for found in spec.entries(NAME):
        fleet, offering = found.fleet, options.offerings[found.fleet.name, found.entry.key]
        need = need_of(fleet.shape, offering)
        # With several infrastructures, the others may have them all.
        least = fleet.min_nodes if len(fleet.infrastructures) == 1 else 0
        hosts = offering.hosts or everyone
        yield Demand(found.options_path, need.cpus, need.memory_mib, hosts, least, need.bios)


Answers = Mapping[str, Facts | InfrastructureError]


@gathered
def lacks(asked: Demands, answers: Answers) -> Iterator[str | Note]:
    """Yield all that is wrong with hosts and demands, each with the remedy; of one among many that is down, a note."""
    free: dict[str, Facts] = {}
    for name, facts in answers.items():
        entry = asked.hosts[name]
        where = f"{asked.path}.hosts.{name}"
        if isinstance(facts, InfrastructureError):
            # Of many hosts one is always down, and the work of others goes on.
            yield Note(f"{where}: {facts}") if isinstance(facts, Silent) else f"{where}: {facts}"
            continue
        ours = facts.claim is not None and facts.claim.stack == asked.stack
        if why := "" if ours else taken(facts, entry.asset_tag):
            yield Note(f"{where}: {why}")
        else:
            free[name] = facts
        if facts.macs and entry.mac not in facts.macs:
            yield f"{where}.mac: {entry.mac} is none of its interfaces, which are {', '.join(facts.macs)}: write the one in the cluster's network"
    yield from _too_few(asked, free, answers)


def _too_few(asked: Demands, free: Mapping[str, Facts], answers: Answers) -> Iterator[str]:
    spoken_for: Counter[tuple[str, ...]] = Counter()
    for demand in asked.demands:
        reasons = {
            name: why
            for name in demand.hosts
            if isinstance(facts := answers.get(name), Facts) and (why := unfit(facts, demand.need))
        }
        fit = [name for name in demand.hosts if name in free and name not in reasons]
        answering = [name for name in demand.hosts if isinstance(answers.get(name), Facts)]
        if answering and len(reasons) == len(answering):
            said = "; ".join(f"{name}: {'; '.join(why)}" for name, why in reasons.items())
            yield f"{demand.path}: none of its hosts is fit: {said}"
            continue
        spoken_for[demand.hosts] += demand.machines
        if spoken_for[demand.hosts] > len(fit):
            text = (
                f"{demand.path}: {spoken_for[demand.hosts]} machines are wanted at least, and {len(fit)} hosts are fit and nobody "
                "else's: name more, or lower min_nodes"
            )
            yield marked(text, "capacity")


Ask = Callable[[Demands], Answers]


def ask(asked: Demands) -> Answers:
    """Ask each host that a machine may be on."""
    named = dict.fromkeys(host for demand in asked.demands for host in demand.hosts)
    return ask_hosts({name: asked.hosts[name] for name in named}, whole=True)


def checks_of(spec: ClusterSpec, stack: str, data: Path) -> Iterator[Finding]:
    """The boot service; each host; and whether they are enough."""
    asked = demands(spec, stack, read_options(spec))
    service = boot_service_lacks(asked.boot_service)
    yield from findings("boot service", [service] if service else [], f"{asked.boot_service} answers")
    answers = ask(asked)
    found: Sequence[str | Note] = lacks(asked, answers)
    for name, facts in answers.items():
        if isinstance(facts, Facts):
            yield Finding(f"host {name}", "note", described(facts))
    for each in found:
        if isinstance(each, Note):
            yield Finding("hosts of bare metal", "note", each.text)
    for name, why in Failures(Kept(data, stack)).resting().items():
        yield Finding(f"host {name}", "note", why)
    yield from findings(
        "hosts of bare metal", [each for each in found if isinstance(each, str)], "they are fit, and enough"
    )


def described(facts: Facts) -> str:
    """Return a host in a line: what it is, has and runs."""
    whose = facts.claim
    parts = [
        facts.model,
        f"serial number {facts.serial}" if facts.serial else "",
        f"{facts.cpus} cpus" if facts.cpus else "cpus not told",
        f"{facts.memory_mib} MiB" if facts.memory_mib else "memory not told",
        f"BIOS {facts.bios_version}" if facts.bios_version else "",
        ", ".join(f"{name} {version}" for name, version in sorted(facts.firmware.items()))
        or "firmware not told",
        f"health {facts.health}" if facts.health else "",
        facts.power.lower(),
        f"node {whose.node} of stack {whose.stack}" if whose else "nobody's",
    ]
    return ", ".join(part for part in parts if part)


def _missing(asked: Demands, home: Home) -> Iterator[str | Note]:
    if service := boot_service_lacks(asked.boot_service):
        yield f"{asked.path}.boot_service: {service}"
    for name, entry in asked.hosts.items():
        address = entry.location.address
        if address.startswith("http:"):
            yield Note(f"{asked.path}.hosts.{name}.bmc: {address} has the password in the clear; write https")
    for name, why in Failures(Kept(home.data, asked.stack)).resting().items():
        yield Note(f"{asked.path}.hosts.{name}: {why}")
    yield from lacks(asked, ask(asked))


PREFLIGHT = Preflight(Demands, _missing)
