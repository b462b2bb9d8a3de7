"""How properties are tried: on the same examples each time, unless somebody hunts.

TIDEPOOL_EXAMPLES=20000 tries as many others of each. What a hunt finds becomes a test of its own.
"""

from __future__ import annotations

import os
from typing import Final

from hypothesis import HealthCheck, settings

#: How many examples of each; 0: nobody hunts.
HUNTED: Final = int(os.environ.get("TIDEPOOL_EXAMPLES", "0"))


def runs(examples: int = 100) -> settings:
    """The settings of a property: so many examples, however long they take to draw and to try."""
    return settings(
        max_examples=HUNTED or examples,
        derandomize=not HUNTED,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
