"""Programs that jobs run under every scheduler, in C: a process that waits or computes, and kernels; and the records that they write."""

from pathlib import Path
from typing import Final

#: Where the sources are, which a wheel has too.
SOURCES: Final = Path(__file__).parent
