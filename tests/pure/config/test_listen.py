"""The forms of ``listen``."""

from __future__ import annotations

import re

import pytest
from twisted.internet.interfaces import IStreamServerEndpointStringParser
from twisted.plugin import getPlugins

from mgw.config.listen import ENDPOINT_TYPES, EndpointText, Listen, parse_listen


@pytest.mark.parametrize(
    ("text", "listen"),
    [
        ("127.0.0.1:8787", Listen("127.0.0.1", 8787)),
        ("localhost:0", Listen("localhost", 0)),
        ("gateway.internal:65535", Listen("gateway.internal", 65535)),
        (":8787", Listen("", 8787)),
        ("[::1]:8787", Listen("::1", 8787)),
        ("tcp:8787", EndpointText("tcp:8787")),
        ("unix:/run/mgw/my sock", EndpointText("unix:/run/mgw/my sock")),
        ("systemd:domain=INET:index=0", EndpointText("systemd:domain=INET:index=0")),
    ],
)
def test_each_form_is_read(text: str, listen: Listen | EndpointText) -> None:
    assert parse_listen(text) == listen


@pytest.mark.parametrize("text", ["127.0.0.1:8787", ":8787", "[::1]:8787", "tcp:8787"])
def test_a_listener_prints_as_it_is_written(text: str) -> None:
    assert str(parse_listen(text)) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected"),
        ("8787", '127.0.0.1:8787"'),
        ("host", "expected"),
        ("host:", "a port from 0 to 65535"),
        ("host:65536", "a port from 0 to 65535"),
        ("host:-1", "a port from 0 to 65535"),
        ("host:８７", "a port from 0 to 65535"),
        ("::1:8787", "needs brackets"),
        ("[::1", "expected"),
        ("[127.0.0.1]:80", "an IP address"),
        ("[x]:80", "an IP address"),
        ("999.1.1.1:80", "an IP address"),
        ("*:80", "without the *"),
        ("ho st:80", "a host name"),
        ("http://host:80", "expected"),
        (" host:80", "spaces"),
        ("host:80\n", "spaces or control"),
        ("fd:3", "systemd:domain=INET:index=0"),
        ("tcp:", "a port"),
        ("unix:", "unix:/path"),
    ],
)
def test_anything_else_is_refused_with_a_hint(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_listen(text)


@pytest.mark.parametrize("kind", sorted(ENDPOINT_TYPES))
def test_twisted_knows_every_endpoint_type(kind: str) -> None:
    plugins = {plugin.prefix for plugin in getPlugins(IStreamServerEndpointStringParser)}
    assert kind in plugins | {"tcp", "ssl", "unix"}  # those three are built in


@pytest.mark.parametrize(
    ("text", "beyond"),
    [
        ("127.0.0.1:80", False),
        ("127.9.9.9:80", False),
        ("localhost:80", False),
        ("[::1]:80", False),
        (":80", True),
        ("0.0.0.0:80", True),
        ("[::]:80", True),
        ("10.0.0.1:80", True),
        ("name.internal:80", True),
        ("tcp:80", True),
        ("tcp:80:interface=127.0.0.1", False),
        ("tcp6:80:interface=\\:\\:1", False),
        ("tcp:80:interface=10.0.0.1", True),
        ("haproxy:tcp:80:interface=127.0.0.1", False),
        ("unix:/run/mgw.sock", False),
        ("haproxy:unix:/run/mgw.sock", False),
        ("systemd:domain=INET:index=0", True),
    ],
)
def test_a_listener_knows_whether_others_can_reach_it(text: str, beyond: bool) -> None:
    assert parse_listen(text).beyond_loopback is beyond
