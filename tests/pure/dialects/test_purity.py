"""The dialects know no network."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
import mgw.dialects
banned = {"twisted", "treq", "klein", "zope", "autobahn"} & {name.partition(".")[0] for name in sys.modules}
sys.exit(", ".join(sorted(banned)) or 0)
"""


def test_the_dialects_load_without_twisted() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
