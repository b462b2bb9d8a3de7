"""A person whose cluster has a converged pool."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.pools.standins import PoolPerson, pool_person
from tests.cli.standins import Person


@pytest.fixture
def ada(somebody: Person) -> Iterator[PoolPerson]:
    person = pool_person(somebody)
    yield person
    person.journal.close()
