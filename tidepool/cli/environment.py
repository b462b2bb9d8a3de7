"""The environment of the engine: where state and its passphrase are, so that `pulumi` finds the same stack."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tidepool.cli.errors import LACKS, Failure
from tidepool.cli.show import warn

_PASSPHRASE_BYTES = 32
_SETTINGS = {
    # There is nothing to download, and looking costs seconds.
    "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    "PULUMI_SKIP_UPDATE_CHECK": "true",
}


def engine_settings(env: Mapping[str, str], data: Path, project_backend: str = "") -> dict[str, str]:
    """Return the variables that the engine needs beyond ``env``. Those that a person set are left as they are.

    ``project_backend`` is the backend's URL that Pulumi.yaml names, or empty.
    """
    settings = {"TIDEPOOL_DATA": str(data)}
    if not (env.get("PULUMI_BACKEND_URL") or project_backend):
        settings["PULUMI_BACKEND_URL"] = f"file://{data / 'state'}"
    # An empty passphrase is one: it is that the variable is there that counts.
    if "PULUMI_CONFIG_PASSPHRASE" not in env and not env.get("PULUMI_CONFIG_PASSPHRASE_FILE"):
        settings["PULUMI_CONFIG_PASSPHRASE_FILE"] = str(data / "passphrase")
        # Then the salt is in the state alone: see `tidepool.cli.environment`.
        settings["PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER"] = "true"
    settings.update({name: value for name, value in _SETTINGS.items() if not env.get(name)})
    return settings


def plugin_settings(env: Mapping[str, str]) -> dict[str, str]:
    """Return a PATH on which `pulumi` finds the plugin `tidepool` that pip installed; nothing where it is on it already."""
    script = Path(sys.executable).with_name("pulumi-resource-tidepool")
    path = env.get("PATH", "")
    if not script.is_file() or shutil.which(script.name, path=path):
        return {}
    return {"PATH": os.pathsep.join(filter(None, [str(script.parent), path]))}


def prepare(settings: Mapping[str, str], data: Path) -> None:
    """Make what ``settings`` name below the data folder: the state's folder, and a passphrase where there is none.

    Raises:
        Failure: it may not be written.
    """
    try:
        data.mkdir(parents=True, exist_ok=True)
        if settings.get("PULUMI_BACKEND_URL") == f"file://{data / 'state'}":
            (data / "state").mkdir(mode=0o700, exist_ok=True)
            (data / "state").chmod(0o700)
        if settings.get("PULUMI_CONFIG_PASSPHRASE_FILE") == str(data / "passphrase"):
            _ensure_passphrase(data / "passphrase")
    except OSError as error:
        raise Failure(
            f"the data folder {data} cannot be written: {error.strerror} ({error.filename})",
            remedy="run it as root, with sudo; or name another folder by TIDEPOOL_DATA",
            code=LACKS,
        ) from error


def _ensure_passphrase(path: Path) -> None:
    """A passphrase in a file of its owner's: made once, whole or not at all, however many try at a time."""
    if path.exists():
        return
    made = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(_PASSPHRASE_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(made, path)
        except FileExistsError:
            pass  # another process was first, and its passphrase is the one
    finally:
        made.unlink()


_NAME: Final = "encryptionsalt"
_KEY: Final = f"{_NAME}:".encode()


@contextmanager
def without_new_encryptionsalt(file: Path, *, ours: bool) -> Iterator[None]:
    """Keep the salt that an engine makes out of ``Pulumi.<stack>.yaml``, where the passphrase is ``ours``.

    A passphrase that Tidepool made is the data folder's. A salt of it in a file that people share would be a wrong
    one on every other machine, and here when the data folder is made anew. The state has the salt as well, and
    PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER has both engines look there.
    """
    if not ours or _has_encryptionsalt(file):
        yield
        return
    before = file.read_bytes() if file.exists() else None
    try:
        yield
    finally:
        _remove_new_encryptionsalt(file, before)


def _remove_new_encryptionsalt(file: Path, before: bytes | None) -> None:
    if _has_encryptionsalt(file):
        # Whoever writes YAML writes all of it a little different: where a person wrote nothing meanwhile, theirs is back.
        same = before is not None and _content(before) == _content(file.read_bytes())
        _write(file, before if before is not None and same else _without_encryptionsalt(file))


def remove_stale_encryptionsalt(file: Path, project: str) -> bool:
    """Take a salt of another passphrase out of ``file``; whether it was. Not where something is encrypted with it."""
    from tidepool.engine.config import is_secure
    from tidepool.engine.config_file import read

    if not _has_encryptionsalt(file) or any(map(is_secure, read(file, project).values.values())):
        return False
    warn(
        f"{file}: encryptionsalt was of another passphrase, and nothing is encrypted with it; it is taken out"
    )
    _write(file, _without_encryptionsalt(file))
    return True


def _content(text: bytes) -> Any:
    """Return the content of a stack's file without the encryption salt."""
    from tidepool.engine.yaml_reading import load

    document = load(text.decode())
    return {k: v for k, v in document.items() if k != _NAME} if isinstance(document, dict) else document


def _without_encryptionsalt(file: Path) -> bytes:
    kept = [line for line in file.read_bytes().splitlines(keepends=True) if not line.startswith(_KEY)]
    return b"".join(kept)


def _write(file: Path, content: bytes) -> None:
    written = file.with_name(f"{file.name}.{os.getpid()}")
    written.write_bytes(content)
    written.chmod(file.stat().st_mode)
    written.replace(file)


def _has_encryptionsalt(file: Path) -> bool:
    try:
        return any(line.startswith(_KEY) for line in file.read_bytes().splitlines())
    except FileNotFoundError:
        return False
