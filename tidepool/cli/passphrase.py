"""The passphrase of stacks' secrets: a file of the data folder, and where several administrate, a copy of what they share."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tidepool.cli.errors import LACKS, Failure
from tidepool.engine.state import files
from tidepool.engine.state.bucket import without_credentials
from tidepool.engine.state.location import is_shared, open_bucket

#: A backend's URL, in whose place the passphrase is shared: ``s3://BUCKET/FOLDER``, say, which other people may read than the state.
VARIABLE: Final = "TIDEPOOL_PASSPHRASE_URL"
#: Its name there, and in the data folder.
NAME: Final = "passphrase"
_BYTES: Final = 32


def ensure_passphrase(path: Path, env: Mapping[str, str], backend: str) -> None:
    """Have the passphrase in ``path``: the shared one, else one made once, whole or not at all, however many try at a time.

    ``backend`` is the URL of the state.

    Raises:
        Failure: state is shared, and the passphrase is not.
        EngineError: where it is shared, it cannot be read or made.
    """
    own = path.read_bytes() if path.exists() else None
    if url := env.get(VARIABLE):
        shared = _shared(url, env, own)
        if shared != own:
            files.write(path, shared)
    elif own is None:
        if is_shared(backend):
            raise Failure(
                f"the state is in {without_credentials(backend)}, which others may share, and there is no passphrase of its secrets "
                "here",
                remedy=f"share one: {VARIABLE}=s3://BUCKET/FOLDER, which makes it where there is none yet; or copy {path} from "
                "where the stack was made; or name a file by PULUMI_CONFIG_PASSPHRASE_FILE",
                code=LACKS,
            )
        files.write_new(path, _new())


def _shared(url: str, env: Mapping[str, str], own: bytes | None) -> bytes:
    bucket = open_bucket(url, Path(env.get("HOME") or Path.home()), Path.cwd(), env)
    key = bucket.root / NAME
    try:
        return bucket.read(key)
    except FileNotFoundError:
        bucket.write_new(key, own or _new())
        return bucket.read(key)  # another may have been first


def _new() -> bytes:
    return f"{secrets.token_urlsafe(_BYTES)}\n".encode()
