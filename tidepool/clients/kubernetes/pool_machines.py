"""Machines of pools as `kubectl get poolmachines` shows them: a kind of our own, for those that are no nodes at the moment too. Pure.

Nobody acts on these objects; Tidepool writes them, and writes them again where somebody else changed them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tidepool.clients.kubernetes.objects import STACK_LABEL, PoolMachine, Right

#: A group that is nobody's domain. Cluster API has Machines, and Metal3 BareMetalHosts: neither name is taken.
GROUP: Final = "pools.tidepool"
VERSION: Final = f"{GROUP}/v1"
KIND: Final = "PoolMachine"
PLURAL: Final = "poolmachines"
PATH: Final = f"/apis/{VERSION}/{PLURAL}"
#: All that whoever writes them may. Where it is missing they are not shown, and all else goes on.
RIGHTS: Final = tuple(Right(verb, PLURAL, GROUP) for verb in ("create", "delete", "list", "patch"))

#: Columns of `kubectl get`, in order: what each shows, and its type.
_COLUMNS: Final = (
    ("Pool", "pool", "string"),
    ("Role", "role", "string"),
    ("Node", "node", "string"),
    ("Jobs", "jobs", "string"),
    ("Since", "since", "date"),
    ("Reason", "reason", "string"),
)
_DESCRIPTIONS: Final = {
    "pool": "The pool that it is of.",
    "role": "What it serves: Slurm or Kubernetes; None while it is neither, or that is not known.",
    "node": "How Kubernetes has it: Absent (no Node), Held (cordoned), NotReady, Ready; Unknown where that was not seen.",
    "jobs": "The jobs that Slurm runs on it, of many the first.",
    "since": "When it took its role.",
    "reason": "Who ordered it and why; or what holds it on its way.",
}


def definition() -> dict[str, Any]:
    """Return the CustomResourceDefinition. They are of no namespace, as Nodes are."""
    fields: dict[str, Any] = {
        name: {"type": "string", "description": text, **({"format": "date-time"} if name == "since" else {})}
        for name, text in _DESCRIPTIONS.items()
    }
    shown = {"type": "object", "description": "How it was seen last.", "properties": fields}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}", "labels": {"app.kubernetes.io/managed-by": "tidepool"}},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {"kind": KIND, "listKind": f"{KIND}List", "plural": PLURAL, "singular": KIND.lower()},
            "versions": [
                {
                    "name": VERSION.rpartition("/")[2],
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"status": shown}}},
                    "additionalPrinterColumns": [
                        {"name": name, "type": kind, "jsonPath": f".status.{field}"}
                        for name, field, kind in _COLUMNS
                    ],
                }
            ],
        },
    }


def body_of(machine: PoolMachine) -> dict[str, Any]:
    """Return the object of a machine, whole: what it does not say is not there."""
    said = {name: getattr(machine, name) for name in _DESCRIPTIONS}
    return {
        "apiVersion": VERSION,
        "kind": KIND,
        "metadata": {"name": machine.name, "labels": {STACK_LABEL: machine.stack}},
        "status": {name: value for name, value in said.items() if value},
    }


def read_pool_machine(said: Mapping[str, Any]) -> PoolMachine:
    """The machine of an object; what is no text is left out, for it will be written anew.

    Raises:
        KeyError, TypeError, AttributeError: it is no object.
    """
    meta, status = said["metadata"], said.get("status") or {}
    told = {name: value for name in _DESCRIPTIONS if isinstance(value := status.get(name), str)}
    return PoolMachine(meta["name"], (meta.get("labels") or {}).get(STACK_LABEL, ""), **told)
