"""`drain` and `resume`: nodes out of service and back, with what changed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

import click

from tidepool.cli import show
from tidepool.cli.cluster import Cluster, require_cluster
from tidepool.cli.errors import NOT_THERE, USAGE, Failure
from tidepool.cli.jobs import jobs_by_node
from tidepool.cli.options import json_option, node_names, stack_options
from tidepool.cli.stack import Stack
from tidepool.clients.slurm import Node, SlurmClient
from tidepool.cluster.hostlist import expand, fold


@dataclass(frozen=True, slots=True)
class Change:
    """A node's state before and after. ``jobs`` run there now."""

    node: str
    before: str
    after: str
    reason: str
    jobs: tuple[int, ...]


@click.command("drain")
@click.option("-r", "--reason", help='Why, for all who look at the node.  [default: "by USER with tidepool"]')
@click.argument("nodes", metavar="NODES", shell_complete=node_names)
@json_option
@stack_options
def drain_verb(stack: Stack, reason: str | None, nodes: str, as_json: bool) -> None:
    """Let no new jobs start on nodes. Jobs that run there go on.

    NODES is a hostlist such as cpu-[1-4].
    """
    why = reason or f"by {stack.context.who} with tidepool"
    cluster = _cluster(stack)
    with closing(stack.open_slurm(cluster.controller)) as slurm:
        before = _nodes(slurm, nodes, cluster)
        slurm.drain(nodes, why)
        _show(_changes(slurm, nodes, before), as_json)


@click.command("resume")
@click.argument("nodes", metavar="NODES", shell_complete=node_names)
@json_option
@stack_options
def resume_verb(stack: Stack, nodes: str, as_json: bool) -> None:
    """Put nodes back into service: those that drain, are drained, or down.

    NODES is a hostlist such as cpu-[1-4].
    """
    cluster = _cluster(stack)
    with closing(stack.open_slurm(cluster.controller)) as slurm:
        before = _nodes(slurm, nodes, cluster)
        if well := [node for node in before.values() if node.state.takes_jobs]:
            show.tell(f"in service already: {', '.join(node.name for node in well)}")
        if ill := [node.name for node in before.values() if not node.state.takes_jobs]:
            slurm.resume(",".join(ill))
        _show(_changes(slurm, nodes, before), as_json)


def _cluster(stack: Stack) -> Cluster:
    stack.require_root()
    return require_cluster(stack)


def _nodes(slurm: SlurmClient, nodes: str, cluster: Cluster) -> dict[str, Node]:
    """The nodes that are named.

    Raises:
        Failure: some of them are slots: places for nodes, and no nodes yet.
        NotFound: Slurm does not know one of them.
    """
    if not expand(nodes):
        raise Failure("there is no node in the hostlist", code=USAGE)
    found = {node.name: node for node in slurm.nodes(nodes)}
    serving = {name for roles in cluster.pools.values() for name in expand(roles.get("kubernetes") or "")}
    if elsewhere := [name for name, node in found.items() if node.state.is_slot and name in serving]:
        raise Failure(
            f"{fold(elsewhere)}: it serves Kubernetes now, and is no node of Slurm's",
            remedy=f"`tidepool convert {fold(elsewhere)} --to slurm` first, or cordon it in Kubernetes",
            code=NOT_THERE,
        )
    if slots := [name for name, node in found.items() if node.state.is_slot]:
        raise Failure(
            f"{fold(slots)}: there is no such node yet, only its slot",
            remedy="`tidepool status` shows the nodes",
            code=NOT_THERE,
        )
    return found


def _changes(slurm: SlurmClient, nodes: str, before: Mapping[str, Node]) -> list[Change]:
    running = jobs_by_node(slurm.jobs())
    return [
        Change(
            node.name,
            str(before[node.name].state),
            str(node.state),
            node.reason.text if node.reason else "",
            tuple(running.get(node.name, ())),
        )
        for node in slurm.nodes(nodes)
    ]


def _show(changes: list[Change], as_json: bool) -> None:
    if as_json:
        show.emit(show.document(changes))
        return
    rows = [(c.node, c.before, c.after, c.reason, ", ".join(map(str, c.jobs))) for c in changes]
    show.show(show.table("", ["node", "was", "is", "reason", "jobs"], rows))
