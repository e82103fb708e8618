"""The completion for bash: a function that needs bash alone, without the package bash-completion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tools.completion.command_tree import Node, Value

_HEAD: Final = """\
# Completion for bash; to use it in a shell: source <(mgw completion bash)

_mgw() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} place= options= words= files=
    # bash takes --format=json for three words.
    if [[ $current == = ]]; then
        current=
    elif [[ $before == = ]]; then
        before=${COMP_WORDS[COMP_CWORD-2]}
    fi
    if ((COMP_CWORD > 1)); then
        place=${COMP_WORDS[1]}
    fi
    if ((COMP_CWORD > 2)) && [[ NESTED == *" $place "* ]]; then
        place+=" ${COMP_WORDS[2]}"
    fi
"""
_TAIL: Final = """\
    COMPREPLY=()
    if [[ $current == -* && -n $options ]]; then
        words=$options files=
    fi
    if [[ -n $words ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$current"))
    elif [[ -n $files ]]; then
        compopt -o filenames 2>/dev/null
        local IFS=$'\\n'
        COMPREPLY=($(compgen -f -- "$current"))
    fi
}
complete -F _mgw mgw
"""


def render(tree: Node) -> str:
    """Return the script."""
    nested = " ".join(node.path[0] for node in tree.commands if node.commands)
    return "".join(
        [
            _HEAD.replace("NESTED", f'" {nested} "'),
            '    case "$place $before" in\n',
            *(f"        {line}\n" for node in tree.below() for line in _values(node)),
            "        *)\n            case $place in\n",
            *(f"                {line}\n" for node in tree.below() for line in _place(node)),
            "            esac\n            ;;\n    esac\n",
            _TAIL,
        ]
    )


def _values(node: Node) -> Iterator[str]:
    """Yield what follows the options of a command."""
    for option in node.options:
        if option.value is not None:
            places = "|".join(_quoted(f"{' '.join(node.path)} {name}") for name in option.names)
            yield f"{places}) {_offered(option.value)} ;;"


def _place(node: Node) -> Iterator[str]:
    """Yield what can stand anywhere else in it."""
    options = " ".join(name for option in node.options for name in option.names)
    names = tuple(command.path[-1] for command in node.commands)
    value = next(iter(node.offered()), Value("", names))
    yield f"{_quoted(' '.join(node.path))}) options={_quoted(options)} {_offered(value)} ;;"


def _offered(value: Value) -> str:
    return "files=1" if value.is_file else f"words={_words(value.words)}"


def _words(words: Iterable[str]) -> str:
    return _quoted(" ".join(words))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
