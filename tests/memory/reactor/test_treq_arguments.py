"""What treq is given: a URL that is nothing but its text, and headers in their order."""

from __future__ import annotations

from mgw.reactor.treq_arguments import ExactURL, headers_of

URL = "http://[::1]:80/%zz?x=[1]&canary"


def test_a_url_is_its_text_and_does_not_print_it() -> None:
    url = ExactURL(URL)
    assert url.to_uri().to_text() == URL
    assert "canary" not in repr(url) + str(url)


def test_urls_of_different_texts_differ() -> None:
    assert {ExactURL(URL), ExactURL(URL), ExactURL("http://a/")} == {ExactURL("http://a/"), ExactURL(URL)}
    assert ExactURL(URL) != URL


def test_headers_keep_their_order_and_repetitions() -> None:
    headers = headers_of([(b"X-B", b"1"), (b"Accept", b"2"), (b"X-B", b"3")])
    assert list(headers.getAllRawHeaders()) == [(b"X-B", [b"1", b"3"]), (b"Accept", [b"2"])]
