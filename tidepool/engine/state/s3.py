"""State in S3, or what speaks like it: a bucket, or a folder of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tidepool.engine.state.files import StorageError
from tidepool.engine.state.objects import ObjectBucket
from tidepool.engine.state.s3_calls import S3Calls

#: S3 deletes as many at once.
_AT_ONCE: Final = 1000


class S3Bucket(ObjectBucket):
    """A bucket, or a folder of one."""

    def __init__(self, url: str, env: Mapping[str, str]) -> None:
        """Open it, which asks nobody yet. Errors as of `S3Calls`."""
        self._calls = S3Calls(url, env)
        self.folder = self._calls.address.folder

    def location(self, key: Path) -> str:
        return f"s3://{self._calls.address.bucket}/{self.name(key)}"

    def get(self, key: Path) -> bytes:
        with self._calls.explained("read", self.location(key)):
            content: bytes = self._calls.call("get_object", Key=self.name(key))["Body"]
            return content

    def put(self, key: Path, content: bytes, *, new: bool = False) -> bool:
        condition = {"IfNoneMatch": "*"} if new else {}
        try:
            with self._calls.explained("written", self.location(key)):
                self._calls.call(
                    "put_object", Key=self.name(key), Body=content, **condition, **self._calls.encryption
                )
        except FileExistsError:
            return False
        return True

    def delete(self, keys: Sequence[Path]) -> None:
        for first in range(0, len(keys), _AT_ONCE):
            some = [{"Key": self.name(key)} for key in keys[first : first + _AT_ONCE]]
            with self._calls.explained("removed", self.location(keys[first])):
                if len(some) == 1:
                    self._calls.call("delete_object", **some[0])
                    continue
                answer = self._calls.call("delete_objects", Delete={"Objects": some, "Quiet": True})
            for failed in answer.get("Errors", ()):
                raise StorageError(
                    f"s3://{self._calls.address.bucket}/{failed['Key']} cannot be removed: {failed['Message']}"
                )

    def copy(self, key: Path, target: Path) -> bool:
        source = {"Bucket": self._calls.address.bucket, "Key": self.name(key)}
        try:
            with self._calls.explained("copied", self.location(key)):
                self._calls.call(
                    "copy_object", Key=self.name(target), CopySource=source, **self._calls.encryption
                )
        except FileNotFoundError:
            return False
        return True

    def folders(self, folder: Path) -> list[str]:
        return sorted(
            found["Prefix"].rstrip("/").rpartition("/")[2]
            for page in self._pages(folder, "")
            for found in page.get("CommonPrefixes", ())
        )

    def dated(self, folder: Path, prefix: str = "") -> list[tuple[int, str]]:
        return [
            (int(found["LastModified"].timestamp() * 1e9), found["Key"].rpartition("/")[2])
            for page in self._pages(folder, prefix)
            for found in page.get("Contents", ())
            if not found["Key"].endswith("/")  # what consoles make for a folder
        ]

    def _pages(self, folder: Path, prefix: str) -> Iterator[Mapping[str, Any]]:
        more: dict[str, str] = {}
        while True:
            with self._calls.explained("listed", self.location(folder)):
                page = self._calls.call(
                    "list_objects_v2", Prefix=f"{self.above(folder)}{prefix}", Delimiter="/", **more
                )
            yield page
            if not page.get("IsTruncated"):
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}
