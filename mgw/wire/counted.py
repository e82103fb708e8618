"""How many values a JSON body has, without building one of them.

A value in Python takes up to thirty times the bytes that it has in JSON, and every object of a request is
opened, read and written anew.  So bodies that are to be understood are counted first.  What is counted are
the commas and brackets outside of strings; a body without many of them anywhere is not looked at any closer.
"""

from __future__ import annotations

from mgw.wire.checked import structure_of


def has_more(body: bytes, max_objects: int, max_values: int) -> bool:
    """Whether a JSON body has more objects, or more values in all, than these; whatever, where it is none."""
    if len(body) < 2 * max_objects:
        return False
    objects = body.count(b"{")
    if objects <= max_objects and objects + body.count(b"[") + body.count(b",") <= max_values:
        return False
    objects = values = 0
    for outside in structure_of(body):
        opened = outside.count(b"{")
        objects += opened
        values += opened + outside.count(b"[") + outside.count(b",")
        if objects > max_objects or values > max_values:
            return True
    return False
