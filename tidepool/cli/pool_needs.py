"""What converged pools need of their images and of this machine, told before anything is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from tidepool import shipped
from tidepool.cluster.roles import ROLES
from tidepool.cluster.spec import ClusterSpec
from tidepool.images import ImageError, read_lacks
from tidepool.infrastructures.local.kernel import Lack
from tidepool.toolchain import ToolchainError, find


def roles_not_held(spec: ClusterSpec, project: Path) -> Iterator[str]:
    """The pools whose image lacks what a role needs, by the recipes of ``project``; a line each, with the remedy."""
    for pool in spec.pools:
        folder = shipped.recipe(pool.image, project)
        for role in ROLES:
            try:
                lacks = read_lacks(folder, shipped.playbooks(project), role)
            except ImageError as error:
                yield f"pool {pool.name}: {error}"
                break
            if lacks:
                yield (
                    f"pool {pool.name}: its image {pool.image} does not hold the role {role}, as it has no "
                    f"{', no '.join(lacks)}; name one that does (by default it is debian-12-converged), or add that "
                    f"to {folder / 'recipe.yaml'}"
                )


def toolchain_lack(spec: ClusterSpec, env: Mapping[str, str]) -> Iterator[Lack]:
    """That Kubernetes is not built, where pools serve it: their images hold parts of it, and so does its control plane."""
    if not spec.pools:
        return
    try:
        find(env)
    except ToolchainError as error:
        what, _, remedy = str(error).rpartition(": ")
        yield Lack(what, remedy)
