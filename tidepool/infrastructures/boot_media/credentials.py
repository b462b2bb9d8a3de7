"""The file of who may use BMCs."""

from __future__ import annotations

import stat
from pathlib import Path

from tidepool.cluster.failures import Permanent


def read_credentials(path: Path) -> tuple[str, str]:
    """Return the user and the password in a file.

    Raises:
        Permanent: it is not there, is no such file, or others may read it.
    """
    wanted = f"write USER:PASSWORD into it, for you alone: install -m 600 /dev/stdin {path}"
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise Permanent(f"others may read {path}, which has passwords of BMCs; run: chmod 600 {path}")
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Permanent(
            f"the file of BMCs' credentials, {path}, cannot be read ({error}); {wanted}"
        ) from error
    user, colon, password = lines[0].partition(":") if len(lines) == 1 else ("", "", "")
    if not (user and colon and password):
        raise Permanent(f"the file of BMCs' credentials, {path}, is not one line USER:PASSWORD; {wanted}")
    return user, password
