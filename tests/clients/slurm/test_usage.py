"""What sacct tells of the time that jobs had, read."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tidepool.clients.slurm import Malformed
from tidepool.clients.slurm.usage import AccountRecords, JobTime
from tidepool.clients.transport import Completed

#: Of 22.05: one that waits, one that was requeued and ran again, one with gres.
SAID = """\
physics|ada|None assigned||0|1795683541|1795683541
biology|ada|cpu-4|billing=1,cpu=1,mem=256M,node=1|8|1795683553|1795683561
biology|ada|cpu-1|billing=1,cpu=1,mem=256M,node=1|20|1795683572|1795683592
optics|grace|gpu-[1-2]|billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=4,mem=2G,node=2|60|1795683500|1795683560
"""


class Answering:
    where = "here"

    def __init__(self, said: str) -> None:
        self.said, self.asked = said, [""]

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        self.asked = [*argv]
        return Completed(0, self.said, "")

    def close(self) -> None: ...


def test_each_time_that_a_job_ran_is_one_and_what_waits_is_none() -> None:
    there = Answering(SAID)
    found = AccountRecords(there, "physics").job_times(1795683500, 1795683600)
    assert found == (
        JobTime("biology", "ada", "cpu-4", 1795683553, 1795683561, 8, 1, 256, {}),
        JobTime("biology", "ada", "cpu-1", 1795683572, 1795683592, 20, 1, 256, {}),
        JobTime(
            "optics", "grace", "gpu-[1-2]", 1795683500, 1795683560, 60, 8, 2048, {"gpu:a100": 4, "gpu": 4}
        ),
    )
    assert "--starttime=uts1795683500" in there.asked


@pytest.mark.parametrize("said", ["biology|ada\n", "biology|ada|cpu-4|cpu=1|long|1795683553|1795683561\n"])
def test_what_is_no_answer_is_told(said: str) -> None:
    with pytest.raises(Malformed):
        AccountRecords(Answering(said), "physics").job_times(0, 1)
