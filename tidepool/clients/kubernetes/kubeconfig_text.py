"""Kubeconfigs as texts: one for who is known by a certificate; a person's, kept; and what Tidepool notes in it. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tidepool.cluster.kubelet_files import kubeconfig

_NAME: Final = "tidepool"
#: Paths of files in a kubeconfig, by where they stand.
_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key", "tokenFile"),
}


def kubeconfig_text(server: str, authority: str, certificate: str, key: str) -> str:
    """A kubeconfig with one context: ``server`` is a URL, the others are PEM texts. It holds the key."""
    user = {"client-certificate-data": _base64(certificate), "client-key-data": _base64(key)}
    return _text(kubeconfig(server, authority, _NAME, user))


def noted(text: str, folder: Path, note: Mapping[str, Any]) -> str:
    """The kubeconfig with a note of Tidepool's in it, which others pass over, fit to be read from any folder.

    ``folder`` is where relative paths in it begin; `note_of` gives the note back.
    """
    config = _read(text)
    for section in _sections(config):
        for key in _PATHS["cluster"] + _PATHS["user"]:
            if section.get(key):
                section[key] = str(folder / str(section[key]))
        program = section.get("exec")
        # One without a slash is found on PATH.
        if isinstance(program, dict) and "/" in str(program.get("command")):
            program["command"] = str(folder / str(program["command"]))
    extensions = config.get("extensions")
    others = [each for each in _maps(extensions) if each.get("name") != _NAME]
    config["extensions"] = [*others, {"name": _NAME, "extension": dict(note)}]
    return _text(config)


def note_of(text: str) -> Mapping[str, Any]:
    """Return what `noted` wrote into a kubeconfig.

    Raises:
        ValueError: there is no note in it.
    """
    config = _read(text)
    for each in _maps(config.get("extensions")):
        if each.get("name") == _NAME and isinstance(each.get("extension"), dict):
            found: Mapping[str, Any] = each["extension"]
            return found
    raise ValueError("it is no kubeconfig that Tidepool wrote")


def _sections(config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for kind in _PATHS:
        for each in _maps(config.get(f"{kind}s")):
            if isinstance(each.get(kind), dict):
                yield each[kind]


def _maps(listed: object) -> list[dict[str, Any]]:
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def _read(text: str) -> dict[str, Any]:
    # Ours are JSON, which is read a hundred times as quickly.
    if text.startswith("{"):
        read = json.loads(text)
    else:
        import yaml

        try:
            read = yaml.safe_load(text)
        except yaml.YAMLError:
            raise ValueError("it is no YAML") from None
    if not isinstance(read, dict):
        raise ValueError("it is no kubeconfig")
    return read


def _text(config: Mapping[str, Any]) -> str:
    """JSON, which is YAML: nothing in it is folded or quoted otherwise. Maps come from Pulumi in any order."""
    return json.dumps(config, indent=1, sort_keys=True, default=str)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
