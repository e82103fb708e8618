"""Nobody can see whether the gateway remembers earlier requests.

``python -m tests.support.remembered_requests 20000`` plays more of the same.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.support.remembered_requests import Stage, differences, draw_script


@pytest.mark.parametrize("seed", range(12))
def test_all_is_the_same_as_without_a_memory(seed: int) -> None:
    assert not differences(seed, 50)


def test_the_drawn_requests_use_all_of_the_memory() -> None:
    stages = [Stage(remembers=True) for _ in range(4)]
    for seed, stage in enumerate(stages):
        stage.play(draw_script(Random(seed), 50))
    memos = [memo for stage in stages for memo in stage.memos]
    findings = [found for memo in memos for found in memo.findings.values()]
    assert any(memo.sent for memo in memos)
    assert any(memo.labels for memo in memos)
    assert any(shapes.tried for memo in memos for shapes in memo.shapes.values())
    assert any(found.relayed for found in findings)
    assert any(found.translated for found in findings)
    assert any(found.is_unambiguous for found in findings)


def test_without_a_memory_nothing_is_kept() -> None:
    stage = Stage(remembers=False)
    stage.play(draw_script(Random(0), 50))
    for memo in stage.memos:
        tables = (memo.heads, memo.findings, memo.targets, memo.sent, memo.shapes, memo.labels)
        assert not any(tables)
