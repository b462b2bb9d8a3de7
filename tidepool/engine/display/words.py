"""Words for an operation before, while and after it is done. They are the Pulumi CLI's."""

from __future__ import annotations

from typing import Final, NamedTuple

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


class _Words(NamedTuple):
    """Names of a step of one operation, in the order of time."""

    sign: str
    color: str
    planned: str = ""
    under_way: str = ""
    done: str = ""


_WORDS: Final = {
    Op.SAME: _Words("  ", markup.RESET),
    Op.CREATE: _Words("+ ", markup.GREEN, "create", "creating", "created"),
    Op.UPDATE: _Words("~ ", markup.YELLOW, "update", "updating", "updated"),
    Op.DELETE: _Words("- ", markup.RED, "delete", "deleting", "deleted"),
    Op.REPLACE: _Words("+-", markup.BRIGHT_MAGENTA, "replace", "replacing", "replaced"),
    Op.CREATE_REPLACEMENT: _Words(
        "++", markup.BRIGHT_GREEN, "create replacement", "creating replacement", "created replacement"
    ),
    Op.DELETE_REPLACED: _Words(
        "--", markup.BRIGHT_RED, "delete original", "deleting original", "deleted original"
    ),
    Op.READ: _Words("> ", markup.BRIGHT_CYAN, "read", "reading", "read"),
    Op.READ_REPLACEMENT: _Words(
        ">>", markup.BRIGHT_MAGENTA, "read for replacement", "reading for replacement", "read for replacement"
    ),
    Op.REFRESH: _Words("~ ", markup.YELLOW, "refreshing", "refreshing", "refresh"),
    Op.READ_DISCARD: _Words("< ", markup.RED, "discard", "discarding", "discarded"),
    Op.DISCARD_REPLACED: _Words(
        "<<", markup.RED, "discard original", "discarding original", "discarded original"
    ),
    Op.REMOVE_PENDING_REPLACE: _Words("~ ", markup.RESET),
    Op.IMPORT: _Words("= ", markup.GREEN, "import", "importing", "imported"),
    Op.IMPORT_REPLACEMENT: _Words(
        "=>", markup.BRIGHT_MAGENTA, "import replacement", "importing replacement", "imported replacement"
    ),
}

#: What a preview calls a step once the plan is complete, where that is something else.
_PLAN_MADE: Final = {
    Op.CREATE_REPLACEMENT: "replace",
    Op.DELETE_REPLACED: "replace",
    Op.READ_REPLACEMENT: "replace",
    Op.DISCARD_REPLACED: "replace",
    Op.REFRESH: "refresh",
    Op.IMPORT_REPLACEMENT: "import",
}

#: What a summary calls steps that were made; others by their operation and a "d", as the CLI has it.
_COUNTED: Final = {
    Op.DELETE_REPLACED: "deleted",
    Op.READ: "read",
    Op.REFRESH: "refreshed",
    Op.READ_DISCARD: "discarded",
    Op.DISCARD_REPLACED: "discarded",
    Op.REMOVE_PENDING_REPLACE: "replaced",
    Op.IMPORT: "imported",
    Op.IMPORT_REPLACEMENT: "imported",
}

_DROPS_RESOURCE: Final = frozenset({Op.DELETE, Op.REPLACE, Op.CREATE_REPLACEMENT, Op.DELETE_REPLACED})


def color(op: Op) -> str:
    """The colour of an operation."""
    return _WORDS[op].color


def sign(op: Op) -> str:
    """Two characters that stand for ``op`` at the beginning of a line."""
    return _WORDS[op].sign


def colored_sign(op: Op, done: bool = True) -> str:
    """The sign of ``op`` in its colour, bold while it is under way. The colour is not reset."""
    return ("" if done else markup.BOLD) + color(op) + sign(op)


def under_way(op: Op) -> str:
    """Return the word for a step that is under way: "creating"."""
    return _WORDS[op].under_way


def done(op: Op, failed: bool) -> str:
    """Return the words for a step that ended: "created", "creating failed"."""
    if not failed:
        return _WORDS[op].done
    if op is Op.REMOVE_PENDING_REPLACE:
        return ""
    return f"{_WORDS[op].under_way.partition(' ')[0]} failed".lstrip()


def planned(op: Op, complete: bool) -> str:
    """Return a preview's word for a step: "create"; a replacement is one thing once the plan is ``complete``."""
    planned = _WORDS[op].planned
    return _PLAN_MADE.get(op, planned) if complete else planned


def counted(op: Op, is_preview: bool) -> str:
    """Return the words that follow a count in a summary: "to create", "created"."""
    return f"to {op.value}" if is_preview else _COUNTED.get(op, f"{op.value}d")


def retained(step: StepMetadata) -> str:
    """Return the note on a step that leaves the real resource as it is."""
    is_kept = step.old is not None and step.old.retain_on_delete and step.op in _DROPS_RESOURCE
    return "[retain]" if is_kept else ""


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
