"""Words for an operation before, while and after it is done. They are the Pulumi CLI's."""

from __future__ import annotations

from typing import Final

from tidepool.engine import urn as urns
from tidepool.engine.display import markup
from tidepool.engine.events import Op, StepMetadata

#: The order in which a summary lists operations.
SUMMARY_ORDER: Final = tuple(Op)

#: Steps that are parts of replacing a resource.
REPLACEMENT_STEPS: Final = frozenset(
    {
        Op.REPLACE,
        Op.CREATE_REPLACEMENT,
        Op.DELETE_REPLACED,
        Op.READ_REPLACEMENT,
        Op.DISCARD_REPLACED,
        Op.REMOVE_PENDING_REPLACE,
        Op.IMPORT_REPLACEMENT,
    }
)

_SIGNS: Final = {
    Op.SAME: "  ",
    Op.CREATE: "+ ",
    Op.UPDATE: "~ ",
    Op.DELETE: "- ",
    Op.REPLACE: "+-",
    Op.CREATE_REPLACEMENT: "++",
    Op.DELETE_REPLACED: "--",
    Op.READ: "> ",
    Op.READ_REPLACEMENT: ">>",
    Op.REFRESH: "~ ",
    Op.READ_DISCARD: "< ",
    Op.DISCARD_REPLACED: "<<",
    Op.REMOVE_PENDING_REPLACE: "~ ",
    Op.IMPORT: "= ",
    Op.IMPORT_REPLACEMENT: "=>",
}

_UNDER_WAY: Final = {
    Op.SAME: "",
    Op.CREATE: "creating",
    Op.UPDATE: "updating",
    Op.DELETE: "deleting",
    Op.REPLACE: "replacing",
    Op.CREATE_REPLACEMENT: "creating replacement",
    Op.DELETE_REPLACED: "deleting original",
    Op.READ: "reading",
    Op.READ_REPLACEMENT: "reading for replacement",
    Op.REFRESH: "refreshing",
    Op.READ_DISCARD: "discarding",
    Op.DISCARD_REPLACED: "discarding original",
    Op.REMOVE_PENDING_REPLACE: "",
    Op.IMPORT: "importing",
    Op.IMPORT_REPLACEMENT: "importing replacement",
}

_DONE: Final = {
    Op.SAME: "",
    Op.CREATE: "created",
    Op.UPDATE: "updated",
    Op.DELETE: "deleted",
    Op.REPLACE: "replaced",
    Op.CREATE_REPLACEMENT: "created replacement",
    Op.DELETE_REPLACED: "deleted original",
    Op.READ: "read",
    Op.READ_REPLACEMENT: "read for replacement",
    Op.REFRESH: "refresh",
    Op.READ_DISCARD: "discarded",
    Op.DISCARD_REPLACED: "discarded original",
    Op.REMOVE_PENDING_REPLACE: "",
    Op.IMPORT: "imported",
    Op.IMPORT_REPLACEMENT: "imported replacement",
}

_FAILED: Final = {
    Op.SAME: "failed",
    Op.CREATE: "creating failed",
    Op.UPDATE: "updating failed",
    Op.DELETE: "deleting failed",
    Op.REPLACE: "replacing failed",
    Op.CREATE_REPLACEMENT: "creating failed",
    Op.DELETE_REPLACED: "deleting failed",
    Op.READ: "reading failed",
    Op.READ_REPLACEMENT: "reading failed",
    Op.REFRESH: "refreshing failed",
    Op.READ_DISCARD: "discarding failed",
    Op.DISCARD_REPLACED: "discarding failed",
    Op.REMOVE_PENDING_REPLACE: "",
    Op.IMPORT: "importing failed",
    Op.IMPORT_REPLACEMENT: "importing failed",
}

_PLANNED: Final = {
    Op.SAME: "",
    Op.CREATE: "create",
    Op.UPDATE: "update",
    Op.DELETE: "delete",
    Op.REPLACE: "replace",
    Op.CREATE_REPLACEMENT: "create replacement",
    Op.DELETE_REPLACED: "delete original",
    Op.READ: "read",
    Op.READ_REPLACEMENT: "read for replacement",
    Op.REFRESH: "refreshing",
    Op.READ_DISCARD: "discard",
    Op.DISCARD_REPLACED: "discard original",
    Op.REMOVE_PENDING_REPLACE: "",
    Op.IMPORT: "import",
    Op.IMPORT_REPLACEMENT: "import replacement",
}

_PLAN_MADE: Final = _PLANNED | {
    Op.CREATE_REPLACEMENT: "replace",
    Op.DELETE_REPLACED: "replace",
    Op.READ_REPLACEMENT: "replace",
    Op.DISCARD_REPLACED: "replace",
    Op.REFRESH: "refresh",
    Op.IMPORT_REPLACEMENT: "import",
}

_COUNTED: Final = {
    Op.SAME: "samed",
    Op.CREATE: "created",
    Op.UPDATE: "updated",
    Op.DELETE: "deleted",
    Op.REPLACE: "replaced",
    Op.CREATE_REPLACEMENT: "create-replacementd",  # sic
    Op.DELETE_REPLACED: "deleted",
    Op.READ: "read",
    Op.READ_REPLACEMENT: "read-replacementd",  # sic
    Op.REFRESH: "refreshed",
    Op.READ_DISCARD: "discarded",
    Op.DISCARD_REPLACED: "discarded",
    Op.REMOVE_PENDING_REPLACE: "replaced",
    Op.IMPORT: "imported",
    Op.IMPORT_REPLACEMENT: "imported",
}

_DROPS_RESOURCE: Final = frozenset({Op.DELETE, Op.REPLACE, Op.CREATE_REPLACEMENT, Op.DELETE_REPLACED})


def sign(op: Op) -> str:
    """Two characters that stand for ``op`` at the beginning of a line."""
    return _SIGNS[op]


def colored_sign(op: Op, done: bool = True) -> str:
    """The sign of ``op`` in its colour, bold while it is under way. The colour is not reset."""
    return ("" if done else markup.BOLD) + markup.of_op(op) + _SIGNS[op]


def under_way(op: Op) -> str:
    """Return the word for a step that is under way: "creating"."""
    return _UNDER_WAY[op]


def done(op: Op, failed: bool) -> str:
    """Return the words for a step that ended: "created", "creating failed"."""
    return (_FAILED if failed else _DONE)[op]


def planned(op: Op, complete: bool) -> str:
    """Return a preview's word for a step: "create"; a replacement is one thing once the plan is ``complete``."""
    return (_PLAN_MADE if complete else _PLANNED)[op]


def counted(op: Op, is_preview: bool) -> str:
    """Return the words that follow a count in a summary: "to create", "created"."""
    return f"to {op.value}" if is_preview else _COUNTED[op]


def retained(step: StepMetadata) -> str:
    """Return the note on a step that leaves the real resource as it is."""
    return (
        "[retain]"
        if step.old is not None and step.old.retain_on_delete and step.op in _DROPS_RESOURCE
        else ""
    )


def display_type(token: str) -> str:
    """A type as people write it: ``aws:s3/bucket:Bucket`` is ``aws:s3:Bucket``."""
    package, _, rest = token.partition(":")
    module, colon, name = rest.partition(":")
    folder, slash, file = module.rpartition("/")
    if not colon or ":" in name or not slash or not name or file != name[0].lower() + name[1:]:
        return token
    return f"{package}:{folder}:{name}"


def is_root(urn: str) -> bool:
    """Return whether ``urn`` is the stack's own resource."""
    return bool(urn) and urns.qualified_type_of(urn) == urns.ROOT_STACK_TYPE


def is_internal(step: StepMetadata) -> bool:
    """Return whether a step is the engine's own business: in the event log, but shown to nobody."""
    return step.op is Op.REMOVE_PENDING_REPLACE or (
        step.type.startswith("pulumi:providers:") and urns.name_of(step.urn).startswith("default")
    )


def printable(text: str) -> str:
    """``text`` on one line, with escapes for what cannot be seen (a name may hold anything)."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def duration(seconds: int) -> str:
    """Whole seconds as Go writes them: "1s", "1m5s", "1h0m3s"."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def plural(count: int, word: str) -> str:
    """``word`` or its plural, without the count."""
    return word if count == 1 else word + "s"
