"""Files of tests that are uploaded: from memory, and such as end in the middle."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from tidepool.runs.ports import RunError
from tidepool.runs.results.store import PART

#: Three parts, the last of them short.
LARGE = bytes(range(256)) * (2 * PART // 256) + b"end"


@dataclass
class MemorySource:
    """Content; ``reads`` counts how often each offset was read, and from ``ends_at`` on nothing can be."""

    content: bytes
    ends_at: int | None = None
    reads: list[int] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.content)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    def read(self, offset: int, length: int) -> bytes:
        self.reads.append(offset)
        if self.ends_at is not None and offset >= self.ends_at:
            raise RunError("cut off")
        return self.content[offset : offset + length]
