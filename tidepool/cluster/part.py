"""What the models of a spec are made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Strict

Whole = Annotated[int, Strict()]
"""A whole number, and neither text nor true or false."""


class Part(BaseModel):
    """A part of a spec: frozen, and without keys that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
