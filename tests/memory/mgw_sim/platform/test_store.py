"""The store is bounded."""

from mgw_sim.platform.store import MAX_CONTENT, Store


def test_old_contents_make_way_and_too_large_ones_are_not_kept() -> None:
    store = Store()
    for name in "abc":
        store.keep_content(("f", "c", name), bytes(MAX_CONTENT // 2))
    assert [key[2] for key in store.contents] == ["b", "c"]
    store.keep_content(("f", "c", "d"), bytes(MAX_CONTENT + 1))
    assert [key[2] for key in store.contents] == ["b", "c"]
