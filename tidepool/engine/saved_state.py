"""The state of a stack on disk, around one operation: lock, recovery, loading, journal, saving."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tidepool.engine.errors import EngineError
from tidepool.engine.request import OperationRequest
from tidepool.engine.resource import (
    ResourceState,
    Snapshot,
    decode_resource,
    encode_resource,
)
from tidepool.engine.state.checkpoint import Crypter
from tidepool.engine.state.journal import Journal, Recovered, commit_left, digest, recover
from tidepool.engine.state.lock import StackLock
from tidepool.engine.state.secrets import NoSecrets, PassphraseCrypter
from tidepool.engine.verbs.workspace import OpenStack


class StateChanged(EngineError):
    """Somebody else wrote the stack's state while an operation held its lock."""

    def __init__(self, stack: str, set_aside: str) -> None:
        super().__init__(
            f"the state of stack '{stack}' was changed by somebody else while this operation was at work (was its "
            f"lock taken away by `cancel`?), so it was not overwritten. What this operation came to is in {set_aside}. "
            "Compare it with `stack export` and with what really exists, and make the state right with `stack import`"
        )


class SavedState:
    """The saved state of a stack, which an operation begins with and replaces by what it came to."""

    def __init__(self, stack: OpenStack) -> None:
        self._stack = stack
        self._crypter = _crypter(stack)
        #: The journal of the operation; None while only reading.
        self.journal: Journal | None = None
        self._began_with = ""
        self._lock: StackLock | None = None
        if isinstance(self._crypter, PassphraseCrypter):
            self._crypter.warm()  # deriving the key takes a moment: it runs beside the rest of the start
        #: What a person must be told before the operation begins.
        self.warnings: list[str] = []
        self.base = Snapshot()

    def encode(self, state: ResourceState) -> dict[str, Any]:
        """A resource as the journal keeps it."""
        return encode_resource(state, self._crypter.encrypt)

    @contextmanager
    def reading(self, request: OperationRequest) -> Iterator[None]:
        """For an operation that changes nothing: nobody is kept away, nothing is written."""
        recovered = self._load()
        if recovered is not None:
            self.warnings.append(recovered.message)
        self._clear_pending_creates(request)
        yield

    @contextmanager
    def changing(self, request: OperationRequest) -> Iterator[None]:
        """For an operation that changes the state: nobody else may, until it is saved."""
        backend, ref = self._stack.backend, self._stack.ref
        with backend.lock(ref) as lock:
            self._lock = lock
            self.warnings += lock.warnings
            self._take_up_journal()
            self._clear_pending_creates(request)
            self._began_with = digest(backend.content(ref))
            self.journal = Journal(backend.journal(ref), self._began_with, request.kind)
            yield

    def take_up_journal(self) -> None:
        """Take up the journal of an operation that was killed, for whoever comes next: the CLI reads no journals.

        Raises:
            StackLocked: where the operation still lives, or may.
            EngineError: where the journal cannot be taken up; it stays.
        """
        with self._stack.backend.lock(self._stack.ref):
            self._take_up_journal()

    def verify_passphrase(self) -> None:
        """Wait for the key of the stack's secrets.

        Raises:
            IncorrectPassphrase: where the passphrase is not the stack's.
        """
        if isinstance(self._crypter, PassphraseCrypter):
            self._crypter.verify()

    def peek(self) -> Snapshot:
        """The state as it was last saved."""
        self._load()
        return self.base

    def save(self, snapshot: Snapshot) -> None:
        """Make ``snapshot`` the stack's state, and let go of the journal, which is part of it then."""
        assert self.journal is not None
        backend, ref = self._stack.backend, self._stack.ref
        try:
            content = self._encode(snapshot)
            if digest(backend.content(ref)) != self._began_with:
                raise StateChanged(ref.name, backend.set_aside(ref, content))
            self.journal.commit(digest(content))
            backend.write(ref, content)
        except BaseException:
            self.abandon()
            raise
        self.journal.remove()
        self.journal = None

    def abandon(self) -> None:
        """Leave the journal for the next operation to recover, where it tells of anything."""
        if self.journal is None:
            return
        if self.journal.is_empty:
            self.journal.remove()
        else:
            self.journal.close()
        self.journal = None

    def let_go(self) -> None:
        """Do what leaving :meth:`changing` does, for a process that ends without leaving it."""
        self.abandon()
        if self._lock is not None:
            self._lock.release()

    def _load(self) -> Recovered | None:
        backend, ref = self._stack.backend, self._stack.ref

        def load() -> Snapshot:
            return backend.load(ref, self._crypter) or Snapshot()

        def decode(raw: Any) -> ResourceState:
            return decode_resource(raw, self._crypter.decrypt)

        recovered = recover(backend.journal(ref), backend.content(ref), load, decode)
        self.base = recovered.snapshot if recovered is not None else load()
        return recovered

    def _take_up_journal(self) -> None:
        recovered = self._load()
        if recovered is not None:
            self.warnings.append(recovered.message)
            self._save_recovered()
        self._stack.backend.journal(self._stack.ref).clear()

    def _clear_pending_creates(self, request: OperationRequest) -> None:
        if request.clear_pending_creates:
            kept = tuple(op for op in self.base.pending_operations if op.type != "creating")
            self.base = replace(self.base, pending_operations=kept)

    def _save_recovered(self) -> None:
        backend, ref = self._stack.backend, self._stack.ref
        if isinstance(self._crypter, PassphraseCrypter):
            self._crypter.verify()  # or what is written now could be read by nobody
        content = self._encode(self.base)
        # Whoever comes after a crash between the two must not take the journal up a second time.
        commit_left(backend.journal(ref), digest(content))
        backend.write(ref, content)

    def _encode(self, snapshot: Snapshot) -> bytes:
        return self._stack.backend.encode(self._stack.ref, snapshot, self._crypter)


def _crypter(stack: OpenStack) -> Crypter:
    try:
        return stack.crypter()
    except EngineError as error:
        if stack.config.encryption_salt:
            raise
        return NoSecrets(str(error))
