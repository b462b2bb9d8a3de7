"""Calls to S3, or to what speaks like it: ``s3://BUCKET/FOLDER?region=...&endpoint=...``, as the Pulumi CLI has it.

Options of the URL: ``pkg/backend/diy/backend.go`` and gocloud.dev's ``aws`` and ``blob/s3blob``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from tidepool.engine.errors import EngineError, NotSupportedError, UsageError
from tidepool.engine.state.bucket import require_no_password, without_credentials
from tidepool.engine.state.files import StorageError

#: For an answer, or more of it. A call is begun again for so long, so that a restart of the server is outlived: one that hangs is
#: given up after both, 30 s (docs/administrators.md).
_TIMEOUT_S: Final = 10.0
_CONNECT_TIMEOUT_S: Final = 5.0
_TRIED_FOR_S: Final = 20.0
#: Once one was given up, until one is answered: whoever has to end does not wait for each of its last calls.
_TRIED_AFTER_THAT_FOR_S: Final = 5.0
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0
#: A server's words for "not now", beside statuses of 500 and more.
_BUSY_CODES: Final = frozenset(
    {
        "RequestTimeout",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "RequestThrottled",
    }
)
_SERVER_ERROR: Final = 500
#: Words for a place that is full, which does not pass by itself.
_FULL_CODES: Final = frozenset({"InsufficientStorage", "QuotaExceeded", "XMinioStorageFull"})
_CREDENTIALS: Final = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile (AWS_PROFILE)"

_TEXTS: Final = (
    "region",
    "profile",
    "endpoint",
    "awssdk",
    "ssetype",
    "kmskeyid",
    "request_checksum_calculation",
    "response_checksum_validation",
)
_SWITCHES: Final = (
    "s3ForcePathStyle",
    "use_path_style",
    "disableSSL",
    "disable_https",
    "dualstack",
    "fips",
    "accelerate",
    "hostname_immutable",
)
_OF_THE_CLI: Final = ("role", "anonymous", "rate_limiter_capacity")
_TRUTHS: Final = {"true": True, "1": True, "t": True, "false": False, "0": False, "f": False}


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of a URL. ``folder`` ends in ``/`` or is empty; ``texts`` and ``switches`` are its options."""

    bucket: str
    folder: str
    texts: Mapping[str, str]
    switches: Mapping[str, bool]

    @property
    def endpoint(self) -> str | None:
        """The server's URL, None for AWS."""
        named = self.texts.get("endpoint")
        if not named or "://" in named:
            return named or None
        return f"http{'' if self.is_plain else 's'}://{named}"

    @property
    def is_plain(self) -> bool:
        """Tell whether it is spoken to without TLS."""
        return self.switches.get("disableSSL", False) or self.switches.get("disable_https", False)

    @property
    def has_path_style(self) -> bool:
        """Tell whether the bucket is in the path of requests, rather than in the name of the host."""
        return any(self.switches.get(name, False) for name in ("s3ForcePathStyle", "use_path_style"))


def parse(url: str) -> Address:
    """Parse a backend's URL.

    Raises:
        NotSupportedError: for options that only the CLI has.
        UsageError: naming all that is not right.
    """
    parts = urlsplit(url)
    require_no_password(url, parts.username or parts.password, _CREDENTIALS)
    said = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in _OF_THE_CLI:
        if name in said:
            raise NotSupportedError(f"the option {name} of the backend {without_credentials(url)}")
    wrong = [] if parts.netloc else ["names no bucket; write s3://BUCKET"]
    wrong += [
        f"{name} is no option; there are {', '.join(sorted((*_TEXTS, *_SWITCHES)))}"
        for name in said
        if name not in (*_TEXTS, *_SWITCHES)
    ]
    wrong += [
        f"{name} is {said[name]!r}, and may be true or false"
        for name in _SWITCHES
        if said.get(name, "true").lower() not in _TRUTHS
    ]
    if wrong:
        raise UsageError(f"the backend {without_credentials(url)}: " + "; ".join(wrong))
    folder = parts.path.strip("/")
    return Address(
        parts.netloc,
        f"{folder}/" if folder else "",
        {name: said[name] for name in _TEXTS if said.get(name)},
        {name: _TRUTHS[said[name].lower()] for name in _SWITCHES if name in said},
    )


class S3Calls:
    """Calls about a bucket, by several threads at once; each is begun again while the server is away or busy."""

    def __init__(self, url: str, env: Mapping[str, str]) -> None:
        """Open it, which asks nobody yet. Errors as :func:`parse`; EngineError where the library or a setting is missing."""
        self.address = parse(url)
        self._client = _client(self.address, env)
        #: Whether the last call was given up.
        self._is_away = False
        #: Arguments of calls that make an object.
        self.encryption = {
            argument: self.address.texts[name]
            for name, argument in (("ssetype", "ServerSideEncryption"), ("kmskeyid", "SSEKMSKeyId"))
            if name in self.address.texts
        }

    def call(self, call: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer to a call, with all of its content; it is begun again while the server is away or busy."""
        from botocore.exceptions import BotoCoreError, ClientError

        until = time.monotonic() + (_TRIED_AFTER_THAT_FOR_S if self._is_away else _TRIED_FOR_S)
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                answer: dict[str, Any] = getattr(self._client, call)(Bucket=self.address.bucket, **arguments)
                if "Body" in answer:  # what is cut off in the middle is asked for anew, too
                    answer = {**answer, "Body": answer["Body"].read()}
            except (BotoCoreError, ClientError) as error:
                if not (may_pass := _may_pass(error)) or time.monotonic() + pause_s >= until:
                    self._is_away = may_pass
                    raise
            else:
                self._is_away = False
                return answer
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def close(self) -> None:
        self._client.close()

    @contextmanager
    def explained(self, done: str, location: str) -> Iterator[None]:
        """Say what went wrong. FileNotFoundError and FileExistsError where that is all."""
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

        try:
            yield
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if code in ("NoSuchKey", "404"):
                raise FileNotFoundError(location) from None
            if code in ("PreconditionFailed", "ConditionalRequestConflict"):
                raise FileExistsError(location) from None
            said = error.response.get("Error", {}).get("Message") or str(error)
            raise _failed(done, location, f"{code}: {said}", _REMEDIES.get(code, _BUSY)) from error
        except (BotoCoreError, HTTPClientError) as error:
            remedy = _SETTINGS.get(type(error).__name__, _AWAY)
            raise _failed(done, location, str(error).rstrip("."), remedy) from error


def _failed(done: str, location: str, said: str, remedy: str) -> StorageError:
    return StorageError(f"{location} cannot be {done}: {said}; {remedy}")


_BUSY: Final = "it was tried again and again; run the command again once the server is well"
_AWAY: Final = (
    "see whether the server runs and is reached from here (endpoint, region), and run the command again"
)
_WHO: Final = f"give credentials that may do it, by {_CREDENTIALS}"
_REMEDIES: Final = {
    **dict.fromkeys(_FULL_CODES, "make room there, or have the quota raised; then run it again"),
    "AccessDenied": _WHO,
    "InvalidAccessKeyId": _WHO,
    "XAdminUserNotFound": _WHO,  # versitygw's word for it
    "SignatureDoesNotMatch": _WHO,
    "ExpiredToken": "log in again, so that there are credentials that have not run out",
    "NoSuchBucket": "make the bucket, or mend its name in the backend's URL",
    "PermanentRedirect": "name the bucket's own region: ?region=...",
    "AuthorizationHeaderMalformed": "name the bucket's own region: ?region=...",
    "RequestTimeTooSkewed": "set this machine's clock",
}
#: By class of what botocore raises.
_SETTINGS: Final = {
    "NoCredentialsError": f"give them by {_CREDENTIALS}",
    "PartialCredentialsError": f"give them by {_CREDENTIALS}",
    "ProfileNotFound": "name one that is there, in the URL (?profile=...) or by AWS_PROFILE",
    "NoRegionError": "name it in the URL (?region=...) or by AWS_REGION",
}


def _may_pass(error: Exception) -> bool:
    """Return whether the same call may succeed a moment later."""
    from botocore import exceptions

    if isinstance(error, exceptions.ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        code = error.response.get("Error", {}).get("Code", "")
        return code not in _FULL_CODES and (status >= _SERVER_ERROR or code in _BUSY_CODES)
    away = (exceptions.ConnectionError, exceptions.HTTPClientError, exceptions.IncompleteReadError)
    return isinstance(error, away)


def _client(address: Address, env: Mapping[str, str]) -> Any:
    try:
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session
    except ImportError as error:
        raise EngineError(
            "state in s3:// needs the Python package botocore, which is not installed; run: .venv/bin/pip install botocore"
        ) from error
    told: Callable[[str], str | None] = lambda name: address.texts.get(name) or None  # noqa: E731
    settings = Config(
        connect_timeout=_CONNECT_TIMEOUT_S,
        read_timeout=_TIMEOUT_S,
        retries={"total_max_attempts": 1},  # `_call` begins again
        # Servers other than AWS often know no checksums in trailers.
        request_checksum_calculation=told("request_checksum_calculation") or "when_required",
        response_checksum_validation=told("response_checksum_validation") or "when_required",
        use_dualstack_endpoint=address.switches.get("dualstack"),
        use_fips_endpoint=address.switches.get("fips"),
        s3={
            "addressing_style": "path" if address.has_path_style else "auto",
            "use_accelerate_endpoint": address.switches.get("accelerate", False),
        },
    )
    try:
        session = Session(profile=told("profile") or env.get("AWS_PROFILE"))
        for variable, name in (
            ("AWS_SHARED_CREDENTIALS_FILE", "credentials_file"),
            ("AWS_CONFIG_FILE", "config_file"),
        ):
            if env.get(variable):
                session.set_config_variable(name, env[variable])
        own = {} if told("profile") else _own_credentials(env)
        return session.create_client(
            "s3",
            region_name=told("region") or env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION"),
            endpoint_url=address.endpoint or env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL"),
            use_ssl=not address.is_plain,
            config=settings,
            **own,
        )
    except (BotoCoreError, ValueError) as error:
        remedy = _SETTINGS.get(type(error).__name__, "mend the backend's URL, or ~/.aws")
        raise StorageError(f"the backend s3://{address.bucket} cannot be used: {error}; {remedy}") from error


def _own_credentials(env: Mapping[str, str]) -> dict[str, str | None]:
    """Return those of ``env``, which need not be this process's; without them they are looked for as by all tools of AWS."""
    if not env.get("AWS_ACCESS_KEY_ID"):
        return {}
    return {
        "aws_access_key_id": env["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": env.get("AWS_SECRET_ACCESS_KEY"),
        "aws_session_token": env.get("AWS_SESSION_TOKEN") or None,
    }
