"""The passphrase of stacks' secrets, where a person gives none: this machine's own, or where several administrate, a shared one."""

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
#: Its name there, and that of one that is this machine's own, in the data folder; beside that is the copy of the shared one.
NAME: Final = "passphrase"
COPY: Final = f"{NAME}-shared"
_BYTES: Final = 32


def passphrase_file(data: Path, env: Mapping[str, str]) -> Path:
    """Return the file of the passphrase that is used where a person names none."""
    return data / (COPY if env.get(VARIABLE) else NAME)


def ensure_passphrase(data: Path, env: Mapping[str, str], backend: str) -> None:
    """Have the passphrase in its file: the shared one, else one made once, whole or not at all, however many try at a time.

    One that this machine had stays, whatever is shared: secrets of other stacks may be encrypted by it. ``backend`` is the URL of the
    state.

    Raises:
        Failure: state is shared, and the passphrase is not.
        EngineError: where it is shared, it cannot be read or made.
    """
    path, own = passphrase_file(data, env), data / NAME
    if url := env.get(VARIABLE):
        shared = _shared(url, env, own.read_bytes() if own.exists() else None)
        if not path.exists() or path.read_bytes() != shared:
            files.write(path, shared)
    elif not own.exists():
        if is_shared(backend):
            raise Failure(
                f"the state is in {without_credentials(backend)}, which others may share, and there is no passphrase of its secrets "
                "here",
                remedy=f"share one: {VARIABLE}=s3://BUCKET/FOLDER, which makes it where there is none yet; or copy {own} from "
                "where the stack was made; or name a file by PULUMI_CONFIG_PASSPHRASE_FILE",
                code=LACKS,
            )
        files.write_new(own, _new())


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
