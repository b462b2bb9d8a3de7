"""URLs of inputs and of results: ``file:///FOLDER``, ``s3://BUCKET/FOLDER``. They are shown and kept, so none has a secret."""

from __future__ import annotations

import re
from typing import Annotated, Final
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator

SCHEMES: Final = ("file", "s3")
_SECRET: Final = re.compile(
    r"(^|[-_.])(secret|password|passwd|pwd|token|signature|sig|credential|credentials|key|accesskeyid|awsaccesskeyid)$",
    re.IGNORECASE,
)


def plain_url(url: str) -> str:
    """Return ``url`` as it is.

    Raises:
        ValueError: it is of no kind that is known, names no place, or has a secret in it; says where that belongs.
    """
    try:
        parts = urlsplit(url)
        password = parts.username or parts.password
    except ValueError as error:
        raise ValueError(f"it is no URL ({error}); write s3://BUCKET/FOLDER or file:///FOLDER") from None
    if password or any(_SECRET.search(name) for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        raise ValueError(
            "it has a secret in it, which records, logs and lists of processes would show; take it out, and give it by "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile (AWS_PROFILE)"
        )
    if parts.scheme not in SCHEMES:
        raise ValueError(
            f"{parts.scheme or 'no'}: is not known here; write s3://BUCKET/FOLDER or file:///FOLDER"
        )
    if parts.scheme == "s3" and not parts.netloc:
        raise ValueError("it names no bucket; write s3://BUCKET/FOLDER")
    if parts.scheme == "file" and (parts.netloc or not parts.path.startswith("/")):
        raise ValueError("a file's URL has a whole path and no host: file:///srv/results")
    if parts.fragment:
        raise ValueError("a '#' in it would end it; write %23")
    return url


def without_secrets(text: str) -> str:
    """Return a URL that was refused, as it may be shown: without its user, and without values of its options."""
    parts = urlsplit(text)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


PlainUrl = Annotated[str, AfterValidator(plain_url)]
