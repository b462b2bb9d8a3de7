from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.engine.state import recordings
from tests.engine.state.recordings import save
from tidepool.engine.errors import EngineError, NoSuchStack, NotSupportedError
from tidepool.engine.resource import ResourceState, SecretsProvider, Snapshot
from tidepool.engine.state import files
from tidepool.engine.state.backend import DiyBackend, StackAlreadyExists, StackHasResources, StackSummary
from tidepool.engine.state.folder import Folder
from tidepool.engine.state.layout import InvalidName, StackReference, backend_url
from tidepool.engine.state.location import root_of
from tidepool.engine.state.references import IntegrityError
from tidepool.engine.state.secrets import NoSecrets, PassphraseCrypter
from tidepool.engine.state.store import CheckpointDamaged, StoreOptions, UpdateInfo

DEV = StackReference("project", "dev")
STACK = ResourceState(
    "urn:pulumi:dev::project::pulumi:pulumi:Stack::project-dev", "pulumi:pulumi:Stack", custom=False
)
UPDATE = UpdateInfo("update", 10, 11, "succeeded", "why", {"a": "b"}, {"project:k": "v"}, {"create": 1})


def with_resource(name: str) -> Snapshot:
    thing = ResourceState(
        f"urn:pulumi:dev::project::my:index:C::{name}", "my:index:C", False, parent=STACK.urn
    )
    return Snapshot((STACK, thing))


def test_a_new_folder_gets_the_layout_that_the_cli_reads(backend: DiyBackend) -> None:
    assert backend.stacks() == []
    assert not backend.layout.bookkeeping.exists()  # reading writes nothing
    backend.create(DEV, SecretsProvider("passphrase", {"salt": "s"}))
    assert backend.layout.meta.read_text(encoding="utf-8") == "version: 1\n"
    document = json.loads((backend.layout.stacks / "project" / "dev.json").read_bytes())
    assert document["version"] == 3
    assert document["checkpoint"]["stack"] == "organization/project/dev"
    assert document["checkpoint"]["latest"]["secrets_providers"] == {
        "type": "passphrase",
        "state": {"salt": "s"},
    }
    assert files.names(backend.layout.locks(DEV)) == []


def test_create_exists_remove(backend: DiyBackend) -> None:
    assert not backend.exists(DEV)
    backend.create(DEV)
    assert backend.exists(DEV)
    assert backend.read(DEV) is None
    assert backend.load(DEV, NoSecrets()) is None
    assert backend.export(DEV) == {"version": 3, "deployment": None}
    with pytest.raises(StackAlreadyExists, match=r"^stack 'organization/project/dev' already exists$"):
        backend.create(DEV)
    backend.remove(DEV)
    assert not backend.exists(DEV)
    for use in (backend.read, backend.export, backend.remove):
        with pytest.raises(NoSuchStack, match=r"^no stack named 'dev' found$"):
            use(DEV)
    backend.create(DEV)  # the .bak that is left is not a stack


def test_what_is_saved_is_loaded(backend: DiyBackend) -> None:
    backend.create(DEV)
    path = save(backend, DEV, with_resource("a"), NoSecrets())
    assert backend.load(DEV, NoSecrets()) == replace(with_resource("a"), unknown_fields={"metadata": {}})
    assert path.stat().st_mode & 0o777 == 0o600
    save(backend, DEV, with_resource("b"), NoSecrets())
    old = json.loads(path.with_name("dev.json.bak").read_bytes())
    assert old["checkpoint"]["latest"]["resources"][1]["urn"].endswith("::a")
    path.chmod(0o640)
    save(backend, DEV, with_resource("c"), NoSecrets())
    assert path.stat().st_mode & 0o777 == 0o640  # who shares a folder has chosen so


def test_the_cli_notes_about_a_file_do_not_outlive_it(tmp_path: Path, crypters: dict[str, Any]) -> None:
    backend, ref = recordings.copy_to(tmp_path), recordings.reference("whole")
    notes = backend.layout.checkpoint(ref).with_name("whole.json.attrs")
    assert notes.exists()
    snapshot = backend.load(ref, crypters["whole"])
    assert snapshot is not None
    save(backend, ref, snapshot, crypters["whole"])
    assert not notes.exists()  # its checksum would be that of another content


def test_what_contradicts_itself_is_refused(backend: DiyBackend) -> None:
    backend.create(DEV)
    orphan = ResourceState("urn:pulumi:dev::project::t::o", "t", False, parent=STACK.urn)
    save(backend, DEV, Snapshot((orphan,)), NoSecrets())
    with pytest.raises(IntegrityError, match=r"refusing to use it: .*parent.* is missing"):
        backend.load(DEV, NoSecrets())


def test_stacks_are_listed_by_project(tmp_path: Path) -> None:
    backend = recordings.copy_to(tmp_path)
    backend.create(StackReference("other", "dev"))
    (backend.layout.stacks / "other" / "notes.txt").touch()
    (backend.layout.stacks / "other" / "dev.json.bak").touch()
    names = [s.ref.qualified.removeprefix("organization/") for s in backend.stacks()]
    assert names == ["other/dev", "recorded/cut", "recorded/empty", "recorded/left", "recorded/whole"]
    assert backend.stacks("other") == [StackSummary(StackReference("other", "dev"), None, None)]
    whole = next(s for s in backend.stacks("recorded") if s.ref.name == "whole")
    assert whole.resource_count == 7
    assert whole.last_update is not None
    assert whole.last_update.startswith("2026-")
    assert backend.stacks("nobody") == []


def test_a_stack_with_resources_is_not_removed_without_force(tmp_path: Path) -> None:
    backend, ref = recordings.copy_to(tmp_path), recordings.reference("whole")
    with pytest.raises(StackHasResources, match="'whole' still has resources; removal rejected"):
        backend.remove(ref)
    backend.remove(ref, force=True)
    assert not backend.exists(ref)
    assert backend.history(ref) == []
    assert backend.tags(ref) == {}
    assert backend.layout.checkpoint(ref).with_name("whole.json.bak").exists()


def test_removing_backups_leaves_nothing(backend: DiyBackend) -> None:
    backend.create(DEV)
    save(backend, DEV, with_resource("a"), NoSecrets())
    backend.add_history(DEV, UPDATE)
    backend.remove(DEV, force=True, remove_backups=True)
    assert [p for p in backend.layout.bookkeeping.rglob("*") if p.is_file()] == [backend.layout.meta]


def test_an_operation_that_is_not_recovered_keeps_its_stack(backend: DiyBackend) -> None:
    backend.create(DEV)
    journal = backend.layout.journal(DEV)
    journal.parent.mkdir(parents=True)
    journal.write_text("{}", encoding="utf-8")
    with pytest.raises(EngineError, match="cannot be removed: its last operation was cut off"):
        backend.remove(DEV)
    with pytest.raises(EngineError, match="cannot be renamed: its last operation was cut off"):
        backend.rename(DEV, StackReference("project", "new"))
    assert backend.exists(DEV)
    backend.remove(DEV, force=True)
    assert not journal.exists()


def test_a_renamed_stack_is_whole_under_its_new_name(
    tmp_path: Path, crypters: dict[str, PassphraseCrypter]
) -> None:
    backend, old, new = (
        recordings.copy_to(tmp_path),
        recordings.reference("whole"),
        StackReference("moved", "n-1"),
    )
    backend.add_history(old, UPDATE)
    before = backend.load(old, crypters["whole"])
    backend.rename(old, new)
    after = backend.load(new, crypters["whole"])
    assert before is not None
    assert after is not None
    assert not backend.exists(old)
    assert after.resources[0].urn == "urn:pulumi:n-1::moved::pulumi:pulumi:Stack::moved-n-1"
    assert len(after.resources) == len(before.resources)
    assert "::recorded::" not in json.dumps(
        [backend.export(new)["deployment"]["resources"][i]["urn"] for i in range(7)]
    )
    assert all("urn:pulumi:n-1::moved::" in r.provider for r in after.resources if r.provider)
    assert len(backend.history(new)) == 2
    assert backend.history(old) == []
    assert backend.tags(new) == {"team": "hpc"}
    assert len(files.names(backend.layout.backups(new))) == 1
    assert files.names(backend.layout.backups(new))[0].startswith("n-1.")


def test_a_stack_is_not_renamed_onto_another(backend: DiyBackend) -> None:
    other = StackReference("project", "other")
    backend.create(DEV)
    backend.create(other)
    for target in (other, DEV):
        with pytest.raises(EngineError, match="already exists"):
            backend.rename(DEV, target)
    assert backend.exists(DEV)
    with pytest.raises(NoSuchStack):
        backend.rename(StackReference("project", "none"), StackReference("project", "new"))


def test_export_and_import(tmp_path: Path, crypters: dict[str, PassphraseCrypter]) -> None:
    backend, ref = recordings.copy_to(tmp_path), recordings.reference("whole")
    exported = backend.export(ref)
    assert exported["version"] == 4
    assert exported["features"] == ["replaceWith"]
    recorded = backend.layout.checkpoint(ref).read_bytes()
    save(backend, ref, Snapshot(), NoSecrets())
    backend.import_(ref, exported)
    assert backend.layout.checkpoint(ref).read_bytes() == recorded.replace(b"1e-7", b"1e-07")
    backend.import_(ref, json.loads(recordings.file_of("left").read_bytes()))  # a whole stack file
    raw = backend.read(ref)
    assert raw is not None
    assert raw.resource_count == 9
    with pytest.raises(NoSuchStack):
        backend.import_(DEV, exported)
    for nonsense in ({"version": 9, "deployment": {}}, {"version": 3, "deployment": []}, {}):
        with pytest.raises(EngineError):
            backend.import_(ref, nonsense)


def test_the_history_of_the_cli_is_read(tmp_path: Path) -> None:
    (update,) = recordings.copy_to(tmp_path).history(recordings.reference("whole"))
    assert (update.kind, update.result, update.message) == ("update", "succeeded", "first")
    assert update.resource_changes == {"create": 6}
    assert set(update.config["recorded:tok"]) == {"secure"}
    assert update.environment["exec.kind"] == "cli"


def test_history_is_written_as_the_cli_writes_it(backend: DiyBackend) -> None:
    backend.create(DEV)
    save(backend, DEV, with_resource("a"), NoSecrets())
    for number in range(5):
        backend.add_history(DEV, replace(UPDATE, message=str(number)))
    assert [u.message for u in backend.history(DEV)] == ["4", "3", "2", "1", "0"]
    assert [u.message for u in backend.history(DEV, page=2, page_size=2)] == ["2", "1"]
    assert backend.history(DEV, page=9, page_size=2) == []
    assert backend.history(DEV)[0] == replace(UPDATE, message="4")
    names = files.names(backend.layout.history(DEV))
    history = next(n for n in names if n.endswith(".history.json"))
    assert history.replace(".history.", ".checkpoint.") in names
    recorded = next((recordings.FOLDER / "history" / "recorded" / "whole").glob("*.history.json"))
    written = json.loads((backend.layout.history(DEV) / history).read_bytes())
    assert list(written) == list(json.loads(recorded.read_bytes()))
    assert len(files.names(backend.layout.backups(DEV))) == 5


def test_damaged_history_and_tags_are_named(backend: DiyBackend) -> None:
    backend.create(DEV)
    backend.add_history(DEV, UPDATE)
    (path,) = backend.layout.history(DEV).glob("*.history.json")
    path.write_text("{", encoding="utf-8")
    with pytest.raises(EngineError, match=f"reading history file {path}"):
        backend.history(DEV)
    backend.layout.tags(DEV).write_text('{"version": 2}', encoding="utf-8")
    with pytest.raises(EngineError, match="unsupported stack tags version: 2"):
        backend.tags(DEV)


def test_tags(tmp_path: Path) -> None:
    backend, ref = recordings.copy_to(tmp_path), recordings.reference("whole")
    assert backend.tags(ref) == {"team": "hpc"}
    recorded = backend.layout.tags(ref).read_bytes()
    backend.set_tag(ref, "b", "2")
    assert backend.remove_tag(ref, "b")
    assert backend.layout.tags(ref).read_bytes() == recorded
    assert not backend.remove_tag(ref, "b")
    assert backend.remove_tag(ref, "team")
    assert not backend.layout.tags(ref).exists()


def test_gzip_is_read_written_and_changed(tmp_path: Path) -> None:
    plain = recordings.copy_to(tmp_path)
    ref = recordings.reference("whole")
    packed = DiyBackend(Folder(tmp_path), StoreOptions.from_env({"PULUMI_DIY_BACKEND_GZIP": "true"}))
    exported = plain.export(ref)
    packed.import_(ref, exported)
    path = plain.layout.checkpoint(ref)
    assert not path.exists()
    assert path.with_name("whole.json.gz").read_bytes().startswith(b"\x1f\x8b")
    assert path.with_name("whole.json.bak").exists()
    assert plain.export(ref) == exported
    assert ref in plain.references()
    packed.add_history(ref, UPDATE)
    assert [u.message for u in plain.history(ref)] == ["why", "first"]
    plain.import_(ref, exported)
    assert not path.with_name("whole.json.gz").exists()
    assert plain.export(ref) == exported


def test_options_that_are_not_supported_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(NotSupportedError, match="zstd"):
        StoreOptions.from_env({"PULUMI_DIY_BACKEND_ZSTD": "1"})
    backend, ref = recordings.copy_to(tmp_path), recordings.reference("whole")
    backend.layout.checkpoint(ref).write_bytes(b"\x28\xb5\x2f\xfd rest")
    with pytest.raises(NotSupportedError, match="zstd"):
        backend.read(ref)
    retained = DiyBackend(Folder(tmp_path), StoreOptions(retain_checkpoints=True, backups=False))
    save(retained, ref, Snapshot(), NoSecrets())
    retained.add_history(ref, UPDATE)
    assert len(list(retained.layout.checkpoint(ref).parent.glob("whole.json.[0-9]*"))) == 1
    assert not retained.layout.backups(ref).exists()


@pytest.mark.parametrize("cut", [0, 1, 200, 20_000])
def test_a_truncated_file_is_refused_with_the_way_back(tmp_path: Path, cut: int) -> None:
    backend, ref = recordings.copy_to(tmp_path), recordings.reference("whole")
    backend.add_history(ref, UPDATE)
    path = backend.layout.checkpoint(ref)
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    newest, *others = list(backend._store.backup_names(ref))
    newest.write_bytes(b"also broken")
    with pytest.raises(CheckpointDamaged, match=r"line \d+, column \d+") as caught:
        backend.read(ref)
    message = str(caught.value)
    assert str(path) in message
    assert f"stack import --stack whole --file {others[0]}" in message
    assert "7 resources" in message
    assert path.read_bytes() == whole[:cut]
    # And the command that is named works.
    backend.import_(ref, json.loads(others[0].read_bytes()))
    raw = backend.read(ref)
    assert raw is not None
    assert raw.resource_count == 7


def test_damage_without_a_backup_says_so(backend: DiyBackend) -> None:
    backend.create(DEV)
    backend.layout.checkpoint(DEV).write_text("[]", encoding="utf-8")
    with pytest.raises(CheckpointDamaged, match=r"not a checkpoint(.|\n)*no usable backup"):
        backend.load(DEV, NoSecrets())


def test_a_legacy_or_newer_layout_is_refused(tmp_path: Path) -> None:
    legacy = tmp_path / "legacy"
    (legacy / ".pulumi" / "stacks").mkdir(parents=True)
    shutil.copy(recordings.file_of("whole"), legacy / ".pulumi" / "stacks" / "old.json")
    with pytest.raises(EngineError, match=r"stacks: old(.|\n)*pulumi state upgrade"):
        DiyBackend(Folder(legacy))
    (tmp_path / ".pulumi").mkdir()
    meta = tmp_path / ".pulumi" / "meta.yaml"
    for text, message in (
        ("version: 2", "version .2. is not supported"),
        ("", "missing version"),
        ("version: 0", "legacy"),
    ):
        meta.write_text(text, encoding="utf-8")
        with pytest.raises(EngineError, match=message):
            DiyBackend(Folder(tmp_path))
    with pytest.raises(EngineError, match="unable to open state directory"):
        DiyBackend(Folder(tmp_path / "none"))


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file://~", "/home/me"),
        ("file://~/state", "/home/me/state"),
        ("file:///var/state?no_tmp_dir=true", "/var/state"),
        ("file://./state", "/work/here/state"),
        ("file://../a%20b", "/work/a b"),
        ("file://.", "/work/here"),
    ],
)
def test_file_urls(url: str, path: str) -> None:
    assert root_of(url, Path("/home/me"), Path("/work/here")) == Path(path)


@pytest.mark.parametrize(
    "url", ["https://me:secret@api.pulumi.com", "gs://bucket?key=secret", "azblob://x", "nonsense"]
)
def test_other_backends_are_refused_by_name(url: str) -> None:
    with pytest.raises(NotSupportedError) as caught:
        DiyBackend.from_url(url, Path("/"), Path("/"))
    assert url.partition("://")[0] in str(caught.value)
    assert "secret" not in str(caught.value)


def test_where_the_backend_is_named(tmp_path: Path) -> None:
    env = {"PULUMI_HOME": str(tmp_path), "HOME": "/none"}
    assert backend_url(env) == "file://~"
    (tmp_path / "credentials.json").write_text('{"current": "file:///login"}', encoding="utf-8")
    assert backend_url(env) == "file:///login"
    assert (
        backend_url({"HOME": str(tmp_path.parent), "PULUMI_CREDENTIALS_PATH": str(tmp_path)})
        == "file:///login"
    )
    assert backend_url(env, "file:///project") == "file:///project"
    assert backend_url(env | {"PULUMI_BACKEND_URL": "file:///env"}, "file:///project") == "file:///env"
    (tmp_path / "credentials.json").write_text("{", encoding="utf-8")
    with pytest.raises(EngineError, match=r"credentials\.json"):
        backend_url(env)


def test_stack_names() -> None:
    assert StackReference.parse("dev", "p") == StackReference("p", "dev")
    assert StackReference.parse("organization/dev", "p") == StackReference("p", "dev")
    assert StackReference.parse("organization/q/dev", "p").qualified == "organization/q/dev"
    assert StackReference.parse("organization/q/dev", None).project == "q"
    for text, project, message in (
        ("", "p", "must not be empty"),
        ("me/p/dev", "p", "must be 'organization'"),
        ("dev", None, "no Pulumi.yaml project file found"),
        ("a/b/c/d", "p", "expected STACK or"),
        ("d v", "p", "invalid character ' ' at position 1"),
        ("..", "p", "cannot be named"),
        ("x" * 101, "p", "cannot exceed 100"),
        ("dev", "p/q", "invalid character '/'"),
    ):
        with pytest.raises(InvalidName, match=message):
            StackReference.parse(text, project)
