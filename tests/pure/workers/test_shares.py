"""What one of several workers has of the service's limits, and how it gets its configuration."""

from __future__ import annotations

import pickle

import pytest

from mgw.config.settings import Config
from mgw.workers.pickled_config import pickle_config, unpickle_config
from mgw.workers.shares import share_of
from tests.support.configs import config

_TEXT = """
providers:
  near: {kind: openai_compat, base_url: "http://127.0.0.1:9/v1", api_key: sk-of-near-12, max_connections: 10}
  far: {kind: anthropic, api_key: sk-of-far-1234567}
edge_auth:
  enabled: true
  keys: [edge-key-abcdef, {name: team, key: edge-key-of-team, requests_per_minute: 60}]
max_clients: 101
max_body_bytes: 33554432
spool: {body_memory: 536870912, body_disk: 4294967296}
realtime: {max_sessions: 100}
"""


def test_memory_disk_clients_and_connections_are_divided() -> None:
    share = share_of(config(_TEXT), 4)
    assert share.spool.body_memory == 128 * 2**20
    assert share.spool.body_disk == 2**30
    assert share.max_clients == 26
    assert share.providers["near"].max_connections == 2
    assert share.providers["far"].max_connections is None


def test_what_is_counted_in_one_place_is_whole() -> None:
    share = share_of(config(_TEXT), 4)
    assert share.realtime.max_sessions == 100
    assert share.edge_auth == config(_TEXT).edge_auth


def test_a_share_has_room_for_the_largest_body_and_one_connection() -> None:
    share = share_of(config(_TEXT), 64)
    assert share.spool.body_memory == 32 * 2**20
    assert share.providers["near"].max_connections == 1


@pytest.mark.parametrize(
    "text", [_TEXT, _TEXT + "hooks: {webhook: {url: 'http://127.0.0.1/', secret: s3cr3t}}\n"]
)
def test_a_configuration_arrives_as_it_was(text: str) -> None:
    settings = config(text)
    arrived: Config = unpickle_config(pickle_config(settings))
    assert arrived == settings
    assert [key.reveal() for key in arrived.edge_auth.secrets] == [
        key.reveal() for key in settings.edge_auth.secrets
    ]


def test_nothing_else_pickles_a_configuration() -> None:
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(config(_TEXT))
