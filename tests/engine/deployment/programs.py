"""Random programs: graphs of resources with options, and random edits of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hypothesis import strategies as st
from pulumi.runtime.proto import alias_pb2

from tidepool.engine import urn as urns
from tidepool.engine.deployment.deployment import Deployment
from tidepool.engine.deployment.goal import Goal
from tidepool.engine.deployment.status import MonitorClosed, ProgramFailed
from tidepool.engine.deployment.step import Registered
from tidepool.engine.providers.discovery import PluginRequest
from tidepool.engine.resource import ResourceState
from tidepool.engine.values import Properties

STACK, PROJECT = "dev", "graph"
_PREFIX = f"urn:pulumi:{STACK}::{PROJECT}::"

Kind = Literal["item", "group", "provider"]


@dataclass(frozen=True, slots=True)
class Alias:
    """A former name or parent of a resource."""

    name: str = ""
    parent: str = ""
    no_parent: bool = False

    def message(self) -> alias_pb2.Alias:
        place: dict[str, Any] = {"noParent": True} if self.no_parent else {"parentUrn": self.parent}
        return alias_pb2.Alias(spec=alias_pb2.Alias.Spec(name=self.name, **place))


@dataclass(frozen=True, slots=True)
class Node:
    """One resource. Other nodes are named by their names, and stand before it in the program.

    A change of ``value`` updates it, of ``key`` replaces it, of ``early`` replaces it with the old one
    deleted first, of ``refs`` updates it, or replaces it where it is ``fixed``.
    """

    name: str
    kind: Kind = "item"
    value: int = 0
    key: int = 0
    early: int = 0
    fixed: bool = False
    refs: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    parent: str = ""
    provider: str = ""
    deleted_with: str = ""
    replace_with: str = ""
    protect: bool = False
    retain: bool = False
    delete_before_replace: bool | None = None
    ignore: tuple[str, ...] = ()
    replace_on: tuple[str, ...] = ()
    aliases: tuple[Alias, ...] = ()

    def __repr__(self) -> str:
        # Hypothesis shows what it found: only what is not as usual.
        usual = Node("")
        said = [f"{k}={v!r}" for k in self.__slots__ if (v := getattr(self, k)) != getattr(usual, k)]
        return f"Node({', '.join(said)})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def needs(self) -> list[str]:
        """All nodes that it names."""
        named = (
            *self.refs,
            *self.depends_on,
            self.parent,
            self.provider,
            self.deleted_with,
            self.replace_with,
        )
        return [n for n in dict.fromkeys(named) if n]

    def only(self, there: dict[str, Node]) -> Node:
        """This node without what is not ``there``, or is not of the kind that it may refer to."""

        def some(names: Iterable[str], *kinds: Kind) -> tuple[str, ...]:
            return tuple(n for n in names if n in there and there[n].kind in kinds)

        def one(name: str, *kinds: Kind) -> str:
            return name if some([name], *kinds) else ""

        return replace(
            self,
            refs=some(self.refs, "item"),
            depends_on=some(self.depends_on, "item", "group"),
            parent=one(self.parent, "group"),
            provider=one(self.provider, "provider"),
            deleted_with=one(self.deleted_with, "item"),
            replace_with=one(self.replace_with, "item"),
        )


@dataclass(frozen=True, slots=True)
class Program:
    """Nodes, each after those that it names. ``fails`` raises an error when all is registered."""

    nodes: tuple[Node, ...]
    fails: bool = False
    #: Whether a resource whose dependency failed is registered all the same: components' SDKs do so.
    persistent: bool = False

    async def run(self, deployment: Deployment) -> None:
        """Register everything, as much as can be at the same time, as the SDK does."""
        await _Running(self, deployment).run()

    def by_name(self) -> dict[str, Node]:
        """All nodes."""
        return {n.name: n for n in self.nodes}

    def cooperative(self) -> Program:
        """This program without protection, and without a failure at its end."""
        return Program(tuple(replace(n, protect=False) for n in self.nodes))


@dataclass
class _Running:
    program: Program
    deployment: Deployment
    tasks: dict[str, asyncio.Task[Registered | None]] = field(default_factory=dict)
    stack: str = ""

    async def run(self) -> None:
        d = self.deployment
        try:
            goal = Goal(f"{PROJECT}-{STACK}", ResourceState("", "pulumi:pulumi:Stack", custom=False))
            self.stack = (await d.serve(d.registrar.register(goal))).state.urn
            for node in self.program.nodes:
                self.tasks[node.name] = asyncio.create_task(self._register(node))
            done = await asyncio.gather(*self.tasks.values(), return_exceptions=True)
            for error in done:
                if isinstance(error, BaseException):
                    raise error
            ids = {n: r.state.id for n, t in self.tasks.items() if (r := t.result()) is not None}
            await d.serve(d.registrar.register_outputs(self.stack, {"ids": ids}))
        except MonitorClosed:
            return  # as a program that is told that the engine has gone
        except Exception as error:
            raise ProgramFailed(str(error), reported=True) from error
        if self.program.fails:
            raise ProgramFailed("the program failed", reported=True)

    async def _register(self, node: Node) -> Registered | None:
        found: dict[str, Registered] = {}
        for name in node.needs():
            registered = await self.tasks[name]
            if registered is None:
                return None
            found[name] = registered
        d = self.deployment
        provider = ""
        if node.provider:
            state = found[node.provider].state
            provider = f"{state.urn}::{state.id}"
        elif node.kind == "item":
            provider = await d.serve(d.default_providers.reference(PluginRequest("mem"), "mem:index:Item"))
        goal = self._goal(node, found, provider)
        result: Registered = await d.serve(d.registrar.register(goal))
        if result.result == "success" or (self.program.persistent and node.kind != "provider"):
            return result
        return None

    def _goal(self, node: Node, found: dict[str, Registered], provider: str) -> Goal:
        urn_of = {name: r.state.urn for name, r in found.items()}
        dependencies = [urn_of[n] for n in (*node.refs, *node.depends_on)]
        state = ResourceState(
            urn="",
            type={"item": "mem:index:Item", "group": "mem:index:Group", "provider": "pulumi:providers:mem"}[
                node.kind
            ],
            custom=node.kind != "group",
            inputs=_inputs(node, {n: r.state.id for n, r in found.items()}),
            parent=urn_of[node.parent] if node.parent else self.stack,
            provider=provider if node.kind == "item" else "",
            dependencies=tuple(dict.fromkeys(dependencies)),
            property_dependencies={"refs": tuple(urn_of[n] for n in node.refs)} if node.refs else {},
            protect=node.protect,
            retain_on_delete=node.retain,
            deleted_with=urn_of.get(node.deleted_with, ""),
            replace_with=(urn_of[node.replace_with],) if node.replace_with else (),
            ignore_changes=node.ignore,
            replace_on_changes=node.replace_on,
        )
        aliases = tuple(a.message() for a in node.aliases)
        return Goal(node.name, state, aliases, node.protect, node.retain, node.delete_before_replace)


def _inputs(node: Node, ids: dict[str, str]) -> Properties:
    if node.kind == "provider":
        return {"key": node.key}
    if node.kind == "group":
        return {"value": node.value}
    inputs: Properties = {"value": node.value, "key": node.key, "early": node.early}
    if node.refs:
        inputs["refs"] = [ids[n] for n in node.refs]
    if node.fixed:
        inputs["fixed"] = True
    if node.deleted_with:
        inputs["inside"] = ids[node.deleted_with]
    return inputs


# -- what is drawn -------------------------------------------------------------------------------------

_KINDS: list[Kind] = ["item", "item", "item", "item", "group", "provider"]
_NUMBERS = st.integers(0, 1)
_OPTIONS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "protect": st.just(True),
        "retain": st.just(True),
        "delete_before_replace": st.booleans(),
        "ignore": st.sampled_from([("value",), ("key",), ("refs",)]),
        "replace_on": st.sampled_from([("value",), ("*",)]),
    },
)


@st.composite
def node(draw: st.DrawFn, name: str, earlier: tuple[Node, ...]) -> Node:
    """A node that refers to some of ``earlier``."""
    names = [n.name for n in earlier]
    some = st.lists(st.sampled_from(names), max_size=2, unique=True) if names else st.just([])
    one = st.sampled_from(["", *names])
    made = Node(
        name,
        draw(st.sampled_from(_KINDS)),
        value=draw(_NUMBERS),
        key=draw(_NUMBERS),
        early=draw(_NUMBERS),
        fixed=draw(st.booleans()),
        refs=tuple(draw(some)),
        depends_on=tuple(draw(some)),
        parent=draw(one),
        provider=draw(one),
    )
    if names and not draw(st.integers(0, 3)):
        made = replace(made, deleted_with=draw(one), replace_with=draw(one))
    if not draw(st.integers(0, 2)):
        made = replace(made, **draw(_OPTIONS))
    return made.only({n.name: n for n in earlier})


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A program of up to six resources."""
    nodes: tuple[Node, ...] = ()
    for name in "abcdef"[: draw(st.integers(1, 6))]:
        nodes += (draw(node(name, nodes)),)
    return Program(nodes)


_EDITS = ("value", "key", "early", "remove", "add", "options", "redraw", "rename", "move", "reorder")


@st.composite
def edited(draw: st.DrawFn, program: Program) -> Program:
    """``program`` with up to three edits. Names of before are given by this round's edits alone."""
    program = Program(tuple(replace(n, aliases=()) for n in program.nodes))
    for _ in range(draw(st.integers(0, 3))):
        program = Program(_valid(_edit(draw, program)))
    fails, persistent = not draw(st.integers(0, 9)), not draw(st.integers(0, 4))
    return replace(program, fails=fails, persistent=persistent)


def _edit(draw: st.DrawFn, program: Program) -> tuple[Node, ...]:
    nodes = program.nodes
    what = draw(st.sampled_from(_EDITS))
    if what == "add" or not nodes:
        taken = {*program.by_name(), *(a.name for n in nodes for a in n.aliases)}
        free = [n for n in "abcdefgh" if n not in taken]
        return (*nodes, draw(node(free[0], nodes))) if free else nodes
    at = draw(st.integers(0, len(nodes) - 1))
    old = nodes[at]
    match what:
        case "remove":
            return nodes[:at] + nodes[at + 1 :]
        case "reorder":
            return tuple(draw(st.permutations(nodes)))
        case "value":
            new = replace(old, value=old.value + 1)
        case "key":
            new = replace(old, key=old.key + 1)
        case "early":
            new = replace(old, early=old.early + 1)
        case "options":
            new = replace(_plain(old), **draw(_OPTIONS))
        case "redraw":
            new = draw(node(old.name, nodes[:at]))
            new = replace(new, kind=old.kind) if draw(st.booleans()) else new
        case "rename":
            new = replace(old, name=f"{old.name}x", aliases=(Alias(name=old.name),))
            if new.name in program.by_name():
                return nodes
            return (*nodes[:at], new, *tuple(_calling(n, old.name, new.name) for n in nodes[at + 1 :]))
        case _:
            groups = ["", *(n.name for n in nodes[:at] if n.kind == "group")]
            parent = draw(st.sampled_from(groups))
            if parent == old.parent:
                return nodes
            new = replace(old, parent=parent, aliases=(_former_place(old, program),))
    return (*nodes[:at], new, *nodes[at + 1 :])


def _plain(old: Node) -> Node:
    return replace(old, protect=False, retain=False, delete_before_replace=None, ignore=(), replace_on=())


def _calling(node: Node, old: str, new: str) -> Node:
    """``node``, calling another by its new name."""

    def called(name: str) -> str:
        return new if name == old else name

    return replace(
        node,
        refs=tuple(map(called, node.refs)),
        depends_on=tuple(map(called, node.depends_on)),
        parent=called(node.parent),
        provider=called(node.provider),
        deleted_with=called(node.deleted_with),
        replace_with=called(node.replace_with),
    )


def _former_place(node: Node, program: Program) -> Alias:
    return Alias(parent=urn_of(program, node.parent)) if node.parent else Alias(no_parent=True)


def urn_of(program: Program, name: str) -> str:
    """The URN that a group or item of ``program`` has."""
    node = program.by_name()[name]
    parent = urns.qualified_type_of(urn_of(program, node.parent)) if node.parent else ""
    type = {"item": "mem:index:Item", "group": "mem:index:Group", "provider": "pulumi:providers:mem"}[
        node.kind
    ]
    return urns.make(STACK, PROJECT, parent, type, node.name)


def _valid(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    there: dict[str, Node] = {}
    for one in nodes:
        there[one.name] = one.only(there)
    return tuple(there.values())
