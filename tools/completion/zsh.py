"""The completion for zsh: a function for each command, with the specifications that ``_arguments`` takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tools.completion.command_tree import Node, Option, Value

_HEAD: Final = """\
#compdef mgw
# Completion for zsh; to use it in a shell: source <(mgw completion zsh)

"""
_TAIL: Final = """\
# The file is either a function that completes, or what defines one.
if [[ ${funcstack[1]} == _mgw ]]; then
    _mgw "$@"
else
    compdef _mgw mgw
fi
"""
_CHOICE: Final = """\
    case $state in
        command)
            local -a commands=(
{names}
            )
            _describe command commands
            ;;
        arguments)
            (($+functions[{function}_${{line[1]}}])) && {function}_${{line[1]}}
            ;;
    esac
"""


def render(tree: Node) -> str:
    """Return the script."""
    return _HEAD + "\n".join(map(_function, tree.below())) + "\n" + _TAIL


def _function(node: Node) -> str:
    name = "_".join(["_mgw", *node.path])
    specs = [spec for option in node.options for spec in _option(option)]
    if not node.commands:
        specs += [_quoted(f":{_value(value)}") for value in node.arguments]
        lines = " \\\n        ".join(["_arguments -s -S", *specs])
        return f"{name}() {{\n    {lines}\n}}\n"
    specs += ["'1: :->command'", "'*:: :->arguments'"]
    lines = " \\\n        ".join(["_arguments -C", *specs])
    names = "\n".join(f"                {_quoted(f'{each.path[-1]}:{each.does}')}" for each in node.commands)
    choice = _CHOICE.format(names=names, function=name)
    return f"{name}() {{\n    local curcontext=$curcontext state line\n    {lines}\n{choice}}}\n"


def _option(option: Option) -> Iterator[str]:
    """Yield a specification for each name; one of them rules out the others."""
    others = f"({' '.join(option.names)})"
    does = option.does.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    for name in option.names:
        takes = "=" if option.value is not None and name.startswith("--") else ""
        value = "" if option.value is None else f":{_value(option.value)}"
        yield _quoted(f"{others}{name}{takes}[{does}]{value}")


def _value(value: Value) -> str:
    """Return the name of a value, and what completes it."""
    name = value.name.lower().replace(":", "\\:")
    if value.is_file:
        return f"{name}:_files"
    return f"{name}:({' '.join(value.words)})" if value.words else f"{name}: "


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
