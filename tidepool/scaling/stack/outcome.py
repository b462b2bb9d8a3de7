"""The outcome of an `up`, by node, from the events that the engine wrote: of either engine the same. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from tidepool.cluster.failures import Cause, unmarked
from tidepool.scaling.ports import Failure, StackError, UpOutcome

#: What a node, or a machine of a pool, is when it serves.
_SERVING: Final = frozenset({"tidepool:slurm:Node", "tidepool:pool:Role"})
_MADE: Final = frozenset({"create", "update", "replace", "create-replacement"})
#: What people read of a failure: the beginning says what it is, the rest is a boot's log.
_TEXT_LENGTH: Final = 600
#: What the engines say beside what a provider said.
_AROUND = re.compile(
    r"^(error: )?((creating|updating|deleting|reading) urn:\S+: )?((\d+) errors? occurred:\s*\*?\s*)?"
)


def outcome(
    events: Iterable[Mapping[str, Any]],
    nodes: Collection[str],
    duration_s: float,
    failed: bool,
    said: str,
    cause_of: Callable[[str, str], Cause] = lambda _node, _text: "transient",
) -> UpOutcome:
    """Return what became of ``nodes``. ``cause_of`` tells, by a node and what was said, the cause that is not marked.

    ``failed`` is whether the engine ended with an error, and ``said`` what it wrote then. A node that no event tells
    of is as it should be where the engine succeeded; else it was not come to, and that is a failure of its own.

    Raises:
        StackError: the engine failed, and none of the nodes was come to: the program did, or something else.
    """
    wanted = frozenset(nodes)
    made, coming, removed, seen = set[str](), set[str](), set[str](), set[str]()
    wrong: defaultdict[str, list[str]] = defaultdict(list)
    general: list[str] = []
    for event in events:
        if done := event.get("resOutputsEvent"):
            kind, name = _of_urn(done["metadata"]["urn"])
            op = done["metadata"]["op"]
            if name not in wanted or done.get("planning"):
                continue
            seen.add(name)
            if op in _MADE and kind in _SERVING:
                (made if _is_up(done["metadata"]) else coming).add(name)
            elif op.startswith("delete"):
                removed.add(name)
        elif lost := event.get("resOpFailedEvent"):
            _, name = _of_urn(lost["metadata"]["urn"])
            if name in wanted:
                wrong[name] += []
        elif (told := event.get("diagnosticEvent")) and told.get("severity") == "error":
            _, name = _of_urn(told.get("urn", ""))
            (wrong[name] if name in wanted else general).append(_plain(told["message"]))
    if failed and not wrong and not seen:
        raise StackError(
            _shortened("; ".join(general) or said.strip() or "the engine failed and said nothing")
        )
    rest = "; ".join(general) or "the operation ended before it came to this node"
    if failed:
        wrong.update({name: [rest] for name in wanted - seen - wrong.keys()})
    failures = {
        name: _failure(texts[0] if texts else rest, lambda text, name=name: cause_of(name, text))  # type: ignore[misc]
        for name, texts in sorted(wrong.items())
    }
    return UpOutcome(
        made=frozenset(made - wrong.keys()),
        # A membership that went is not yet a machine that did; a replacement deletes one of each and makes one.
        removed=frozenset(removed - wrong.keys() - made),
        failed=failures,
        duration_s=duration_s,
        coming=frozenset(coming - wrong.keys()),
    )


def _is_up(metadata: Mapping[str, Any]) -> bool:
    """Return whether the node was up when the operation went on: it does not wait for ever."""
    new = metadata.get("new") or {}
    return (new.get("outputs") or {}).get("state", "up") in ("up", "serving")


def _of_urn(urn: str) -> tuple[str, str]:
    """The type and the name of a resource."""
    parts = urn.split("::", 3)
    return (parts[2].rpartition("$")[2], parts[3]) if len(parts) == 4 else ("", "")


def _plain(message: str) -> str:
    return _AROUND.sub("", message.strip()).strip()


def _failure(said: str, cause_of: Callable[[str], Cause]) -> Failure:
    text, cause = unmarked(said)
    return Failure(cause or cause_of(text), _shortened(text))


def _shortened(text: str) -> str:
    return text if len(text) <= _TEXT_LENGTH else f"{text[:_TEXT_LENGTH]}..."
