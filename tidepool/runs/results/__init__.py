"""Results of runs, and where they are kept: a folder, or object storage; one contract."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tidepool.runs.results.store import Store
from tidepool.runs.urls import plain_url


def open_store(url: str, env: Mapping[str, str]) -> Store:
    """Open the place that a URL names, which asks nobody yet; credentials are those that ``env`` leads to.

    Raises:
        ValueError: the URL is not right, or has a secret in it.
        RunError: it cannot be used.
    """
    parts = urlsplit(plain_url(url))
    if parts.scheme == "s3":
        # Late: it takes a third of a second to import.
        from tidepool.runs.results.s3 import S3Store

        return S3Store(url, env)
    from tidepool.runs.results.folder import FolderStore

    return FolderStore(Path(unquote(parts.path)))
