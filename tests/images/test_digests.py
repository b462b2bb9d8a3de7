"""The digest of a file is that of its bytes, and its holes are zeros."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from tidepool.images.store import sha256_of

_HOLES = st.integers(0, 3 * 2**20)
_PIECES = st.lists(st.tuples(_HOLES, st.binary(max_size=9000)), max_size=4)


@given(_PIECES, _HOLES)
@example([(0, b"")], 0)
@example([(2**21, b"x" * 4096)], 2**20 + 1)
def test_holes_count_as_what_they_stand_for(pieces: list[tuple[int, bytes]], last: int) -> None:
    with tempfile.NamedTemporaryFile() as file:
        for hole, content in pieces:
            file.seek(hole, 1)
            file.write(content)
        file.truncate(file.tell() + last)
        path = Path(file.name)
        assert sha256_of(path) == hashlib.sha256(path.read_bytes()).hexdigest()
