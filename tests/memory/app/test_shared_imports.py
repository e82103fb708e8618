"""What is imported before workers are forked."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

SCRIPT: Final = """
import sys
from mgw.app.shared_imports import import_for_workers
from tests.support.configs import THREE_FAMILIES, config
import_for_workers(config(THREE_FAMILIES))
print("mgw.web.service_secret" in sys.modules)
"""


def test_workers_share_the_secret_of_a_service_that_has_no_issuer_yet() -> None:
    found = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "True"
