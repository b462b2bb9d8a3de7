"""Labels of Kubernetes nodes, as a person gives them."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator

from tidepool.cluster.frozen import frozen

_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_PREFIX: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
#: Of Kubernetes itself, which does not let a kubelet give itself such labels; and ours.
_TAKEN: Final = ("kubernetes.io", "k8s.io", "tidepool")


def _labels(labels: dict[str, str]) -> dict[str, str]:
    for key, value in labels.items():
        prefix, slash, name = key.rpartition("/")
        if not _NAME.fullmatch(name) or (slash and not _PREFIX.fullmatch(prefix)):
            raise ValueError(
                f"{key!r} is no label: write NAME or DOMAIN/NAME, the name at most 63 letters, digits, '-', '_' or '.', "
                "a letter or digit first and last"
            )
        if any(prefix == taken or prefix.endswith(f".{taken}") for taken in _TAKEN):
            raise ValueError(f"labels of {prefix}/ are not for a person to give; leave {key} out")
        if value and not _NAME.fullmatch(value):
            raise ValueError(
                f"{value!r} is no value of a label: at most 63 letters, digits, '-', '_' or '.', a letter or digit first "
                "and last, or nothing"
            )
    return labels


Labels = Annotated[dict[str, str], AfterValidator(_labels), AfterValidator(frozen)]
"""Labels by key; frozen."""
