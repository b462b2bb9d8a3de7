"""Results in S3, or in what speaks like it. What is large goes in parts, several at once; the server keeps those that came.

By botocore, as state in S3 (docs/adr/0047): its calls are begun again while the server is away.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

from tidepool.engine.errors import EngineError
from tidepool.engine.state.s3_calls import S3Calls
from tidepool.runs.ports import Refused, RunError
from tidepool.runs.results.store import PART, Differs, Fingerprint, Source, spans

#: Parts of one object that are on their way at once; each is in memory.
_AT_ONCE: Final = 4
_NEVER: Final = (
    "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "NoSuchBucket", "XAdminUserNotFound", "PermanentRedirect",
)  # fmt: skip


class S3Store:
    """A bucket, or a folder of one."""

    def __init__(self, url: str, env: Mapping[str, str]) -> None:
        """Open it, which asks nobody yet. Raises RunError where the library or a setting is missing."""
        try:
            self._calls = S3Calls(url, env)
        except EngineError as error:
            raise Refused(str(error)) from error
        self._bucket, self._folder = self._calls.address.bucket, self._calls.address.folder

    def location(self, name: str) -> str:
        return f"s3://{self._bucket}/{self._folder}{name}"

    def check(self) -> None:
        name = f"check-{secrets.token_hex(4)}"
        self.write(name, b"")
        self.remove(name)

    def read(self, name: str) -> bytes:
        with self._explained("read", name):
            content: bytes = self._call("get_object", name)["Body"]
            return content

    def write(self, name: str, content: bytes) -> None:
        with self._explained("written", name):
            self._call("put_object", name, Body=content, **self._calls.encryption)

    def write_new(self, name: str, content: bytes) -> bool:
        try:
            with self._explained("written", name):
                self._call("put_object", name, Body=content, IfNoneMatch="*", **self._calls.encryption)
        except FileExistsError:
            # The answer to one of ours may have been lost.
            return self.read(name) == content
        return True

    def remove(self, name: str) -> None:
        with self._explained("removed", name):
            self._call("delete_object", name)

    def names(self, prefix: str) -> list[str]:
        found: list[str] = []
        more: dict[str, str] = {}
        while True:
            with self._explained("listed", prefix):
                page = self._calls.call("list_objects_v2", Prefix=f"{self._folder}{prefix}", **more)
            found += (each["Key"].removeprefix(self._folder) for each in page.get("Contents", ()))
            if not page.get("IsTruncated"):
                return sorted(name for name in found if not name.endswith("/"))
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def upload(self, name: str, source: Source, sent: Callable[[int], None]) -> bool:
        if self._is_there(name, source):
            sent(source.size)
            return False
        if source.size <= PART:
            content = source.read(0, source.size)
            try:
                with self._explained("written", name):
                    self._call(
                        "put_object",
                        name,
                        Body=content,
                        ContentMD5=_md5(content),
                        IfNoneMatch="*",
                        **self._calls.encryption,
                    )
            except FileExistsError:
                # Ours, whose answer was lost, or another's.
                self._require_same(name, source)
            sent(source.size)
            return True
        upload_id = self._begun(name)
        self._complete(name, upload_id, self._sent(name, upload_id, source, sent), source)
        return True

    def missing_parts(self, name: str, size: int, sha256: str, checksums: Sequence[str]) -> tuple[int, ...]:
        told = Fingerprint(size, sha256)
        if self._is_there(name, told):
            return ()
        upload_id = self._begun(name)
        there = self._parts(name, upload_id)
        # Of what is encrypted by a key of KMS tags are no checksums: then what came is taken as it is, until it is verified.
        is_told = not self._calls.encryption.get("ServerSideEncryption", "").startswith("aws:kms")
        missing = tuple(
            number
            for number, checksum in enumerate(checksums, 1)
            if number not in there or (is_told and there[number] != f'"{checksum}"')
        )
        if not missing:
            parts = [{"PartNumber": number, "ETag": there[number]} for number in range(1, len(checksums) + 1)]
            self._complete(name, upload_id, parts, told)
        return missing

    def put_part(self, name: str, size: int, number: int, data: bytes) -> None:
        if len(data) != spans(size)[number - 1][1]:
            raise Refused(f"part {number} of {name} has another length")
        with self._explained("written", name):
            self._call(
                "upload_part",
                name,
                UploadId=self._begun(name),
                PartNumber=number,
                Body=data,
                ContentMD5=_md5(data),
            )

    def sha256(self, name: str) -> str:
        digest, size = hashlib.sha256(), self.size(name)
        for offset, length in spans(size):
            if length:
                digest.update(self.fetch(name, offset, length))
        return digest.hexdigest()

    def size(self, name: str) -> int:
        with self._explained("read", name):
            return int(self._call("head_object", name)["ContentLength"])

    def fetch(self, name: str, offset: int, length: int) -> bytes:
        with self._explained("read", name):
            content: bytes = self._call("get_object", name, Range=f"bytes={offset}-{offset + length - 1}")[
                "Body"
            ]
            return content

    def unfinished(self, prefix: str) -> list[str]:
        return sorted({name for name, _ in self._unfinished(prefix)})

    def abandon(self, prefix: str) -> None:
        for name, upload_id in self._unfinished(prefix):
            with self._unless_gone(), self._explained("removed", name):
                self._call("abort_multipart_upload", name, UploadId=upload_id)

    def close(self) -> None:
        self._calls.close()

    def _unfinished(self, prefix: str) -> list[tuple[str, str]]:
        """Return the name and the id of each upload that was begun, and is neither whole nor abandoned; the newest first."""
        found: list[tuple[Any, str, str]] = []
        more: dict[str, str] = {}
        while True:
            with self._explained("listed", prefix):
                page = self._calls.call("list_multipart_uploads", Prefix=f"{self._folder}{prefix}", **more)
            found += (
                (each.get("Initiated"), each["Key"].removeprefix(self._folder), each["UploadId"])
                for each in page.get("Uploads") or ()
            )
            if not page.get("IsTruncated"):
                return [
                    (name, upload_id)
                    for _, name, upload_id in sorted(found, key=lambda each: str(each[0]), reverse=True)
                ]
            more = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page.get("NextUploadIdMarker", "")}

    def _begun(self, name: str) -> str:
        """Return the id of the upload that goes on: one that was cut off, or a new one."""
        for known, upload_id in self._unfinished(name):
            if known == name:
                return upload_id
        with self._explained("written", name):
            answer = self._call("create_multipart_upload", name, **self._calls.encryption)
        return str(answer["UploadId"])

    def _sent(
        self, name: str, upload_id: str, source: Source, sent: Callable[[int], None]
    ) -> list[dict[str, object]]:
        """Send all parts that are not there, and return the parts as the server knows them."""
        there = self._parts(name, upload_id)

        def send(number: int, offset: int, length: int) -> dict[str, object]:
            data = source.read(offset, length)
            tag = f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
            if there.get(number) != tag:
                with self._explained("written", name):
                    answer = self._call(
                        "upload_part",
                        name,
                        UploadId=upload_id,
                        PartNumber=number,
                        Body=data,
                        ContentMD5=_md5(data),
                    )
                tag = answer["ETag"]  # of what is encrypted by a key of KMS it is no checksum
            sent(length)
            return {"PartNumber": number, "ETag": tag}

        with ThreadPoolExecutor(_AT_ONCE) as threads:
            begun = [
                threads.submit(send, number, offset, length)
                for number, (offset, length) in enumerate(spans(source.size), 1)
            ]
            try:
                return [each.result() for each in begun]
            except BaseException:
                threads.shutdown(cancel_futures=True)
                raise

    def _complete(
        self,
        name: str,
        upload_id: str,
        parts: Sequence[Mapping[str, object]],
        source: Source | Fingerprint,
    ) -> None:
        """Have an upload whose parts are there be an object, once; what is there already is this, or Differs."""
        try:
            with self._explained("written", name):
                self._call(
                    "complete_multipart_upload",
                    name,
                    UploadId=upload_id,
                    MultipartUpload={"Parts": parts},
                    IfNoneMatch="*",
                )
        except FileExistsError:
            self._require_same(name, source)
        except RunError as error:
            # The answer to an earlier call may have been lost: then there is no such upload any more.
            if _code_of(error) != "NoSuchUpload" or not self._is_there(name, source):
                raise

    def _parts(self, name: str, upload_id: str) -> Mapping[int, str]:
        """By number, the tag of each part that is there: its checksum (MD5) in quotes."""
        found: dict[int, str] = {}
        more: dict[str, int] = {}
        while True:
            with self._explained("read", name):
                page = self._call("list_parts", name, UploadId=upload_id, **more)
            found |= {each["PartNumber"]: each["ETag"] for each in page.get("Parts") or ()}
            if not page.get("IsTruncated"):
                return found
            more = {"PartNumberMarker": int(page["NextPartNumberMarker"])}

    def _is_there(self, name: str, source: Source | Fingerprint) -> bool:
        try:
            self._require_same(name, source)
        except FileNotFoundError:
            return False
        return True

    @contextmanager
    def _unless_gone(self) -> Iterator[None]:
        try:
            yield
        except RunError as error:
            if _code_of(error) != "NoSuchUpload":
                raise

    def _require_same(self, name: str, source: Source | Fingerprint) -> None:
        if self.size(name) != source.size or self.sha256(name) != source.sha256:
            raise Differs(
                f"{self.location(name)} is there already, and is another file; move it away, or take another place"
            )

    def _call(self, call: str, name: str, **arguments: Any) -> dict[str, Any]:
        return self._calls.call(call, Key=f"{self._folder}{name}", **arguments)

    @contextmanager
    def _explained(self, done: str, name: str) -> Iterator[None]:
        try:
            with self._calls.explained(done, self.location(name)):
                yield
        except EngineError as error:
            kind = Refused if _code(error) in _NEVER else RunError
            raise kind(str(error)) from error


def _md5(content: bytes) -> str:
    """Return the checksum as the header has it, by which the server refuses what was spoiled on the way."""
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()


def _code(error: EngineError) -> str:
    """Return S3's word for what failed; empty where it said none."""
    response = getattr(error.__cause__, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""


def _code_of(error: RunError) -> str:
    return _code(error.__cause__) if isinstance(error.__cause__, EngineError) else ""
