"""A conversion as the text that the journal keeps, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tidepool.cluster.frozen import FrozenDict
from tidepool.conversion.record import Conversion, Order, Work


def written(conversion: Conversion) -> str:
    """Write all that is not in a column of its own as JSON."""
    order = conversion.order
    return json.dumps(
        {
            "to": order.to,
            "by": order.by,
            "reason": order.reason,
            "at": order.at.isoformat(),
            "deadline_s": order.deadline_s,
            "at_deadline": order.at_deadline,
            "leaves": conversion.leaves,
            "began": {name: at.isoformat() for name, at in conversion.began.items()},
            "back_because": conversion.back_because,
            "text": conversion.text,
            "work": [[each.kind, each.name, each.owner, each.fate, each.text] for each in conversion.work],
        },
        separators=(",", ":"),
    )


def read(row: Mapping[str, Any]) -> Conversion:
    """A row of the table.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """
    body = json.loads(row["body"])
    order = Order(
        node=row["node"],
        pool=row["pool"],
        to=body["to"],
        at=datetime.fromisoformat(body["at"]),
        by=body["by"],
        reason=body["reason"],
        is_forced=bool(row["is_forced"]),
        deadline_s=body["deadline_s"],
        at_deadline=body["at_deadline"],
    )
    return Conversion(
        id=row["id"],
        order=order,
        leaves=body["leaves"],
        phase=row["phase"],
        began=FrozenDict({name: datetime.fromisoformat(at) for name, at in body["began"].items()}),
        ended=moment(row["ended"]),
        cancel_by=row["cancel_by"],
        back_because=body["back_because"],
        text=body["text"],
        work=tuple(Work(*each) for each in body["work"]),
        driver=row["driver"],
        driver_until=moment(row["driver_until"]),
    )


def stamp(at: datetime | None) -> str | None:
    """So that times are in the order of their texts: in UTC, with microseconds."""
    if at is None:
        return None
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def moment(text: str | None) -> datetime | None:
    """Read what `stamp` wrote."""
    return None if text is None else datetime.fromisoformat(text)
