"""The promises that a transport has a part in, over each of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.clients.slurm import test_contract
from tests.clients.slurm.world import World


@pytest.mark.parametrize(
    "promise",
    [
        test_contract.test_nothing_there_is_an_empty_list,
        test_contract.test_a_node_that_is_not_there_is_not_found,
        test_contract.test_draining_says_who_and_why,
        test_contract.test_a_job_waits_runs_and_is_cancelled,
        test_contract.test_demand_is_told_in_full,
        test_contract.test_reservations_are_listed,
        test_contract.test_a_hanging_controller_is_a_time_out,
    ],
)
def test_a_promise_holds_from_elsewhere(elsewhere: World, promise: Callable[[World], None]) -> None:
    promise(elsewhere)
