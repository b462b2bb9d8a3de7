"""`kubectl`: this machine's kubectl, on the cluster's Kubernetes, from within the network where that is reached."""

from __future__ import annotations

import os
import shutil
import sys

import click

from tidepool.cli.errors import EXEC_FAILED, Failure, failure_of
from tidepool.cli.options import stack_options
from tidepool.cli.stack import Stack


@click.command(
    "kubectl", context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False}
)
@click.argument("words", metavar="[--] WORDS...", nargs=-1, required=True, type=click.UNPROCESSED)
@stack_options
def kubectl_verb(stack: Stack, words: tuple[str, ...]) -> int:
    r"""Run kubectl on the cluster's Kubernetes, with all rights where that is the cluster's own.

    It is this machine's kubectl, with this terminal, its standard input and its signals; the exit code is its own.

    \b
    tidepool kubectl -- get pods --all-namespaces --output=wide
    """
    try:
        stack.require_root()
        argv, env = _command(stack, words[1:] if words[0] == "--" else words)
    except BrokenPipeError:
        raise
    except Exception as error:
        failure = failure_of(error)
        if failure is None:
            raise
        raise Failure(failure.what, remedy=failure.remedy, code=EXEC_FAILED) from error
    sys.stdout.flush()
    os.execve(argv[0], argv, env)  # noqa: S606 (no shell)


def _command(stack: Stack, words: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
    """What is run, and in which environment. The key is in a file for root alone, and in neither of them."""
    from tidepool.cluster.names import KUBERNETES_ACCESS, KUBERNETES_ADMIN_ACCESS
    from tidepool.infrastructures.kubernetes_access import access_path, load_access
    from tidepool.infrastructures.local.kernel import network_prefix

    names = (KUBERNETES_ADMIN_ACCESS, KUBERNETES_ACCESS)
    paths = [access_path(stack.data, stack.name, name) for name in names]
    name, path = next(
        (each for each in zip(names, paths, strict=True) if each[1].exists()), (names[1], paths[1])
    )
    access = load_access(stack.data, stack.name, name)
    search = stack.world.env.get("PATH")
    kubectl = shutil.which("kubectl", path=search)
    if kubectl is None:
        raise Failure(
            "kubectl is not on PATH of this machine",
            remedy=f"install it, from the packages of your system or of Kubernetes; or use KUBECONFIG={path}",
        )
    prefix: tuple[str, ...] = ()
    match access.machine:
        case {"kind": "local", "stack": str(its_stack), "machine": str(machine)}:
            prefix = network_prefix(stack.data, its_stack, machine)
    argv = [*prefix, kubectl, *words]
    program = shutil.which(argv[0], path=search)
    if program is None:
        raise Failure(f"{argv[0]} is not on PATH", remedy="install util-linux")
    # Another server's settings of the person's would go before those in the file.
    env = {key: value for key, value in stack.world.env.items() if key != "KUBECONFIG"}
    return [program, *argv[1:]], {**env, "KUBECONFIG": str(path)}
