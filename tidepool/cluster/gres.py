"""Gres, Slurm's generic resources: what a node has besides processors and memory, such as GPUs."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, field_validator
from pydantic_core.core_schema import ValidationInfo

from tidepool.cluster import hostlist
from tidepool.cluster.names import gres_name
from tidepool.cluster.part import Part, Whole

_FORMS = "write NAME, NAME:COUNT or NAME:TYPE:COUNT, such as gpu:a100:2"


class Gres(Part):
    """One kind of gres of a node."""

    name: Annotated[str, AfterValidator(gres_name)] = Field(
        description="What it is: `gpu`, or another name that jobs ask for."
    )
    type: Annotated[str, AfterValidator(gres_name)] | None = Field(
        default=None, description="Which of them, such as `a100`. Jobs may ask for any, or for this one."
    )
    count: Whole = Field(default=1, ge=1, le=1024, description="How many a node has.")
    files: str | None = Field(
        default=None,
        pattern=r"^/[^\s,\"#]+$",
        description="The device files on the node, as many as `count`: `/dev/nvidia[0-1]`. A `gpu` needs them.",
        validate_default=True,
    )

    @field_validator("files")
    @classmethod
    def _one_file_each(cls, files: str | None, others: ValidationInfo) -> str | None:
        count = others.data.get("count")
        if files is None:
            if others.data.get("name") == "gpu":
                raise ValueError(
                    "Slurm wants to know the device files of a gpu; "
                    "add them: {name: gpu, count: 2, files: '/dev/nvidia[0-1]'}"
                )
        elif count is not None:
            named = hostlist.count(files.rpartition("/")[2])
            if named != count:
                raise ValueError(
                    f"{named} files for a count of {count}; name as many files as there are gres"
                )
        return files

    def __str__(self) -> str:
        """As a node's line has it: ``gpu:a100:2``."""
        return ":".join([self.name, *([self.type] if self.type else []), str(self.count)])


def read_gres(value: Any) -> Any:
    """The parts of ``gpu:a100:2``; what is no text is left as it is.

    Raises:
        ValueError: when the text has another form.
    """
    if not isinstance(value, str):
        return value
    name, *rest = value.split(":")
    count = rest.pop() if rest and rest[-1].isdecimal() else "1"
    if len(rest) > 1:
        raise ValueError(_FORMS)
    return {"name": name, "type": rest[0] if rest else None, "count": int(count)}


GresText = Annotated[Gres, BeforeValidator(read_gres)]
"""A `Gres`, or its text."""
