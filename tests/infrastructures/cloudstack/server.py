"""A CloudStack that answers over HTTP: requests are verified, checked against the published definitions, and answered in pages.

What it does is in `tests.infrastructures.cloudstack.cloud`. Signatures are verified as the management server does it, with
Java's URLEncoder, which leaves no tilde as it is; what one list has at most, how often one may ask and how long a job takes
are attributes of `Cloud`.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from tests.infrastructures.cloudstack.cloud import Cloud
from tests.infrastructures.cloudstack.state import CloudError

KEY, SECRET = "key-of-the-department", "secret-of-the-department"
_ITEM = re.compile(r"([a-z]+)\[(\d+)\]\.(.+)", re.IGNORECASE)


@dataclass(frozen=True)
class Definition:
    """A command as it is published."""

    name: str
    is_async: bool
    parameters: Mapping[str, str]
    required: frozenset[str]


@functools.cache
def definitions() -> Mapping[str, Definition]:
    """All commands of `definitions.txt`, by their names in small letters, in which they are asked for as well."""
    found = {}
    for line in (Path(__file__).parent / "definitions.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        name, kind, *words = line.split()
        parameters = dict(word.removeprefix("*").partition(":")[::2] for word in words)
        needed = frozenset(word[1:].partition(":")[0] for word in words if word.startswith("*"))
        found[name.lower()] = Definition(name, kind == "async", parameters, needed)
    return found


def signature(parameters: Mapping[str, str], secret: str) -> str:
    """The signature of a request, as the management server makes it."""
    encoded = {key: quote(value, safe="*").replace("~", "%7E") for key, value in parameters.items()}
    text = "&".join(f"{key}={value}" for key, value in sorted(encoded.items()) if key.lower() != "signature")
    digest = hmac.new(secret.encode(), text.lower().encode(), hashlib.sha1).digest()
    return base64.b64encode(digest).decode()


def _verify(parameters: Mapping[str, str]) -> None:
    given = {key.lower(): value for key, value in parameters.items()}
    expected = signature(parameters, SECRET)
    late = given.get("signatureversion") == "3" and datetime.now(UTC) > datetime.fromisoformat(
        given["expires"]
    )
    if given.get("apikey") != KEY or given.get("signature") != expected or late:
        raise CloudError(401, "unable to verify user credentials and/or request signature")


_OF_ALL = {"command", "response", "apikey", "signature", "signatureversion", "expires"}


def _arguments(definition: Definition, parameters: Mapping[str, str]) -> dict[str, Any]:
    """Its own parameters, in their types; those of maps as a list of maps."""
    found: dict[str, Any] = {}
    for key, value in parameters.items():
        name = key.lower()
        item = _ITEM.fullmatch(key)
        if item is not None:
            name = item[1].lower()
            found.setdefault(name, {}).setdefault(int(item[2]), {})[item[3]] = value
        elif name in _OF_ALL:
            continue
        elif definition.parameters.get(name) == "list":
            found[name] = value.split(",")
        elif definition.parameters.get(name) in ("integer", "long"):
            found[name] = int(value)
        elif definition.parameters.get(name) == "boolean":
            found[name] = value == "true"
        else:
            found[name] = value
        # The real one lets it pass, and does nothing with it: who writes it is mistaken.
        assert name in definition.parameters, f"{definition.name} has no parameter {name}"
    for name in definition.required - found.keys():
        raise CloudError(
            431, f"Unable to execute API command {definition.name.lower()} due to missing parameter {name}"
        )
    return {
        key: [value[at] for at in sorted(value)] if definition.parameters[key] == "map" else value
        for key, value in found.items()
    }


def _paged(cloud: Cloud, arguments: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """The page of a list that was asked for; of nothing there is not even a number."""
    (key,) = answer
    size, page = arguments.get("pagesize", cloud.page_most), arguments.get("page", 1)
    if size > cloud.page_most:
        raise CloudError(431, f"The parameter pagesize exceeded its max value: {cloud.page_most}")
    items = answer[key][(page - 1) * size : page * size]
    return {"count": len(answer[key]), key: items} if items else {}


def answered(cloud: Cloud, parameters: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
    """A status with what JSON says; the status 0 is a connection that breaks."""
    given = {key.lower(): value for key, value in parameters.items()}
    command = given.get("command", "")
    definition = definitions().get(command.lower())
    key = f"{command.lower()}response"
    with cloud.lock:
        try:
            _verify(parameters)
            cloud.asked(command)
            if definition is None or definition.name in cloud.denied:
                raise CloudError(
                    432,
                    f"The given command '{command}' either does not exist, is not available for user, or not available from ip "
                    "address '/127.0.0.1'.",
                )
            arguments = _arguments(definition, parameters)
            page: dict[str, Any] = {
                each: arguments.pop(each) for each in ("page", "pagesize") if each in arguments
            }
            answer = cloud.answer(definition.name, arguments)
            if definition.name.startswith("list") and definition.name != "listCapabilities":
                answer = _paged(cloud, page, answer)
        except CloudError as error:
            told = {"uuidList": [], "errorcode": error.code, "cserrorcode": 9999, "errortext": error.text}
            return error.code, {key: told}
        if cloud.lost(definition.name):
            return 0, {}
        return 200, {key: answer}


def handler(cloud: Cloud) -> type[BaseHTTPRequestHandler]:
    """What answers a connection, GET and POST."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(urlsplit(self.path).query)

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode())

        def _answer(self, query: str) -> None:
            status, said = answered(cloud, dict(parse_qsl(query, keep_blank_values=True)))
            if not status:
                self.close_connection = True
                return
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json;charset=UTF-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Nothing."""

    return Handler


@contextmanager
def served(cloud: Cloud) -> Iterator[str]:
    """The endpoint at which it answers on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(cloud))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/client/api"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
