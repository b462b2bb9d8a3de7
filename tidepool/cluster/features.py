"""Features: words that a node has and that jobs ask for with ``--constraint``. Here, their names."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from tidepool.cluster.names import feature_name


def _each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} stands here {names.count(name)} times; name each feature once")
    return names


Feature = Annotated[str, AfterValidator(feature_name)]
Features = Annotated[tuple[Feature, ...], AfterValidator(_each_once)]
