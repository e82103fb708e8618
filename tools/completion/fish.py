"""The completion for fish: a line for each option and argument, with the command that it belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tools.completion.command_tree import Node, Option, Value

_HEAD: Final = """\
# Completion for fish; to use it in a shell: mgw completion fish | source

# Whether the words so far begin with these commands; with -n, whether there are no others.
function __mgw_at
    argparse n -- $argv; or return
    set -l words (commandline -opc)
    set -e words[1]
    for command in $argv
        test (count $words) -gt 0; and test $words[1] = $command; or return
        set -e words[1]
    end
    not set -q _flag_n; or test (count $words) -eq 0
end

complete -c mgw -f
"""


def render(tree: Node) -> str:
    """Return the script."""
    return _HEAD + "".join(f"{line}\n" for node in tree.below() for line in _lines(node))


def _lines(node: Node) -> Iterator[str]:
    place = " ".join(["__mgw_at", *node.path])
    for command in node.commands:
        here = " ".join(["__mgw_at -n", *node.path])
        yield f"complete -c mgw -n {_quoted(here)} -a {command.path[-1]} -d {_quoted(command.does)}"
    for value in node.offered():
        yield f"complete -c mgw -n {_quoted(place)}{_offered(value)}"
    condition = place if node.path else "__mgw_at -n"
    for option in node.options:
        yield f"complete -c mgw -n {_quoted(condition)}{_names(option)} -d {_quoted(option.does)}"


def _names(option: Option) -> str:
    names = "".join(
        f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}" for name in option.names
    )
    if option.value is None:
        return names
    return f"{names} {'-r' if option.value.is_file else '-x'}{_offered(option.value)}"


def _offered(value: Value) -> str:
    if value.is_file:
        return " -F"
    return f" -a {_quoted(' '.join(value.words))}" if value.words else ""


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
