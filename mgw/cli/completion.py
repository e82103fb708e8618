"""``mgw completion``: what a shell needs to complete the commands and options of ``mgw``.

The files are generated from the description of the command line (``tools/completion``), and packages install
the same ones.
"""

from __future__ import annotations

import argparse
import sys
from types import MappingProxyType
from typing import Final

from mgw.cli.example import shipped_files

FILES: Final = MappingProxyType({"bash": "bash/mgw", "zsh": "zsh/_mgw", "fish": "fish/mgw.fish"})
"""The file for each shell, below ``etc/completion``, with the name by which the shell looks for it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("shell", choices=tuple(FILES), help="the shell")


def run(said: argparse.Namespace) -> int:
    """Print the completion for a shell; return the exit status."""
    files = shipped_files(f"completion/{FILES[said.shell]}")
    if not files:
        sys.stderr.write("mgw completion: the completions are not installed\n")
        return 1
    sys.stdout.write(files[0].read_text(encoding="utf-8"))
    return 0
