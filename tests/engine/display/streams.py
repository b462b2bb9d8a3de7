"""Synthetic streams of events: a small world of resources whose steps begin and end as a test wants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidepool.engine import urn as urns
from tidepool.engine.events import (
    Cancel,
    Event,
    Op,
    Prelude,
    PropertyDiff,
    ResourceFailed,
    ResourceOutputs,
    ResourcePre,
    StepMetadata,
    Summary,
)
from tidepool.engine.resource import ResourceState
from tidepool.engine.values import Properties

STACK, PROJECT = "dev", "proj"
ROOT = urns.make(STACK, PROJECT, "", urns.ROOT_STACK_TYPE, f"{PROJECT}-{STACK}")
TYPE = "cloud:index/server:Server"


def server(name: str, parent: str = ROOT) -> str:
    """The URN of a server."""
    return urns.make(STACK, PROJECT, urns.qualified_type_of(parent), TYPE, name)


def state(
    urn: str,
    inputs: Properties | None = None,
    outputs: Properties | None = None,
    *,
    parent: str = ROOT,
    custom: bool = True,
    id: str = "",
    protect: bool = False,
    hide_diff: tuple[str, ...] = (),
) -> ResourceState:
    """A resource."""
    return ResourceState(
        urn,
        urns.type_of(urn),
        custom,
        id,
        inputs=inputs or {},
        outputs=outputs or {},
        parent="" if urn == ROOT else parent,
        protect=protect,
        hide_diff=hide_diff,
    )


def step(
    op: Op,
    old: ResourceState | None,
    new: ResourceState | None,
    *,
    detailed_diff: Mapping[str, PropertyDiff] | None = None,
    diffs: tuple[str, ...] = (),
    logical: bool = True,
) -> StepMetadata:
    """A step on the resource of ``new`` or ``old``."""
    subject = new or old
    assert subject is not None
    return StepMetadata(
        op,
        subject.urn,
        subject.type,
        subject.provider,
        old,
        new,
        diffs=diffs,
        detailed_diff=detailed_diff,
        logical=logical,
    )


def root(op: Op = Op.CREATE, old: Properties | None = None, new: Properties | None = None) -> StepMetadata:
    """A step of the stack's own resource, with the outputs before and after."""
    before = None if op is Op.CREATE else state(ROOT, {}, old, custom=False)
    return step(op, before, state(ROOT, {}, new, custom=False))


def create(name: str, inputs: Properties | None = None, parent: str = ROOT) -> StepMetadata:
    """The creation of a server."""
    return step(Op.CREATE, None, state(server(name, parent), inputs, inputs, parent=parent, id=f"id-{name}"))


def whole(*steps: StepMetadata, outputs: Properties | None = None, preview: bool = False) -> Iterator[Event]:
    """An operation that makes ``steps``, one after the other, and succeeds."""
    counts: dict[Op, int] = {Op.CREATE: 1}
    yield Prelude({})
    yield ResourcePre(root(), preview)
    for made in steps:
        counts[made.op] = counts.get(made.op, 0) + 1
        yield ResourcePre(made, preview)
        yield ResourceOutputs(made, preview)
    yield ResourceOutputs(root(new=outputs), preview)
    yield Summary(preview, False, 1.4, counts, "succeeded")
    yield Cancel()


def failed(made: StepMetadata) -> ResourceFailed:
    """A step that failed."""
    return ResourceFailed(made)
