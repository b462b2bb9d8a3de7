"""How properties are tried: on the same examples each time, unless somebody hunts.

TIDEPOOL_EXAMPLES=20000 tries as many others of each. What a hunt finds becomes a test of its own.

A property says little where its examples seldom come to what it is about: `comes` counts that they did.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

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


def chances() -> st.SearchStrategy[Random]:
    """What a large example is drawn with by hand, so that each is another.

    Hypothesis tries variations of what it drew itself: of 60 looks at a cluster some 15 were different. Where somebody
    hunts it draws all the same, so that what is found is made small.
    """
    return st.randoms(use_true_random=not HUNTED)


def comes(**least: int) -> Callable[[Callable[[Counter[str]], None]], Callable[[], None]]:
    """Of a property that counts what its examples come to: so often at least each of these came up in all of them."""

    def counted(tried: Callable[[Counter[str]], None]) -> Callable[[], None]:
        def test() -> None:
            came: Counter[str] = Counter()
            tried(came)
            seldom = [
                f"{what}: {came[what]}, not {often}" for what, often in least.items() if came[what] < often
            ]
            assert not seldom, f"the examples hardly come to it: {'; '.join(seldom)}; all: {dict(came)}"

        test.__name__, test.__qualname__, test.__doc__ = tried.__name__, tried.__qualname__, tried.__doc__
        test.__module__ = tried.__module__
        return test

    return counted
