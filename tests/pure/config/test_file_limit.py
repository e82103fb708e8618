"""How many clients a limit of open files allows by default."""

from __future__ import annotations

import pytest

from mgw.ops.file_limit import FILES_PER_CLIENT, LEAST_RESERVE, clients_within, file_limit
from tests.support.configs import THREE_FAMILIES, config


@pytest.mark.parametrize(
    ("files", "clients"), [(0, 16), (64, 16), (256, 64), (1024, 448), (4096, 1792), (20_000, 8750)]
)
def test_each_client_has_room_for_a_provider_and_the_rest_a_reserve(files: int, clients: int) -> None:
    assert clients_within(files) == clients
    if clients > 16:
        assert files - clients * FILES_PER_CLIENT >= LEAST_RESERVE


def test_the_limit_of_this_process_is_known() -> None:
    assert file_limit() > 0


def test_the_setting_is_a_whole_number_and_absent_by_default() -> None:
    assert config().max_clients is None
    assert config(THREE_FAMILIES + "max_clients: 300\n").max_clients == 300
