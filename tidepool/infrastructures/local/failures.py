"""The kind of a failure of this machine, by what was said of it. Pure.

The provider marks most of its failures with their causes; these are those that the kernel answers.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import Final

from tidepool.cluster.failures import InfrastructureError, InsufficientCapacity, Permanent, Transient

#: This machine has no room for one more: disk, memory, processes, files.
_NO_ROOM: Final = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.ENOMEM,
    errno.EAGAIN,
    errno.EMFILE,
    errno.ENFILE,
    errno.EUSERS,
)
#: A person has to do something about it.
_NOT_ALLOWED: Final = (errno.EPERM, errno.EACCES, errno.EROFS, errno.ENOSYS, errno.EOPNOTSUPP)

_KINDS: Final[Mapping[str, type[InfrastructureError]]] = {
    **{os.strerror(code): InsufficientCapacity for code in _NO_ROOM},
    **{os.strerror(code): Permanent for code in _NOT_ALLOWED},
}


def kind_of(text: str) -> type[InfrastructureError]:
    """The kind of a failure whose text this is; what is not known may be gone the next time."""
    return next((kind for said, kind in _KINDS.items() if said in text), Transient)
