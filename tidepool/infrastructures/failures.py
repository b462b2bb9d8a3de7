"""Kinds of failures by their words: what providers say of a failure is text alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from tidepool.cluster.failures import InfrastructureError

Kind = type[InfrastructureError]


def by_words(
    *kinds: tuple[Kind, Iterable[str]], otherwise: Kind, flags: int = re.IGNORECASE
) -> Callable[[str], Kind]:
    """Return the function that gives the kind of a failure by its text: the first of which a regular expression is found there.

    ``otherwise`` is that of texts that nobody knows.
    """
    patterns = [(kind, re.compile("|".join(words), flags)) for kind, words in kinds]
    return lambda text: next((kind for kind, words in patterns if words.search(text)), otherwise)
