"""Names of requests: random digits, none of them twice."""

from __future__ import annotations

import re

from mgw.web.request_ids import RequestIds


def test_a_name_is_24_hexadecimal_digits() -> None:
    assert re.fullmatch("req_[0-9a-f]{24}", RequestIds().take())


def test_no_name_is_given_twice_and_all_randomness_is_used() -> None:
    asked: list[int] = []

    def count(size: int) -> bytes:
        start = sum(asked)
        asked.append(size)
        return b"".join(number.to_bytes(4, "big") for number in range(start // 4, (start + size) // 4))

    ids = RequestIds(count)
    taken = [ids.take() for _ in range(1000)]
    assert len(set(taken)) == 1000
    assert len(asked) < 20
    digits = {name.removeprefix("req_") for name in taken}
    assert {number.to_bytes(4, "big").hex() for number in range(300)} <= {
        part for name in digits for part in (name[:8], name[8:16], name[16:])
    }


def test_two_servers_have_names_of_their_own() -> None:
    one, other = RequestIds(), RequestIds()
    assert not {one.take() for _ in range(500)} & {other.take() for _ in range(500)}
