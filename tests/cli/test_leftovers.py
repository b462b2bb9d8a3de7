"""What is swept of a stack that is gone: all that holds keys; not what is kept on purpose."""

from __future__ import annotations

from pathlib import Path

from tests.infrastructures.local.needs import needs_machines
from tidepool.cli.down import Deleted, delete_leftovers, kept
from tidepool.clients.kubernetes.kubeconfig_text import kubeconfig_text
from tidepool.infrastructures.kubernetes_access import Access, access_path


def test_keys_go_and_volumes_stay(tmp_path: Path) -> None:
    needs_machines(tmp_path)
    way = access_path(tmp_path, "dev", "kubernetes")
    Access.of(kubeconfig_text("https://a:1", "A", "B", "C"), Path("/"), None).save(way)
    boot, volume = tmp_path / "dev/boots/kube.json", tmp_path / "dev/volumes/home"
    boot.parent.mkdir()
    boot.write_text("{}")
    volume.mkdir(parents=True)
    (volume / "file").write_text("kept")
    assert delete_leftovers(tmp_path, "dev") == Deleted()
    assert not way.parent.exists()
    assert not boot.parent.exists()
    assert kept(tmp_path, "dev") == {"home": volume}
