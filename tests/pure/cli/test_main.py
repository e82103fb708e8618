"""The command line: what people guess is there, and what is not there leads to what is."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mgw import __version__
from mgw.cli.arguments import TwoFilesError, settle_file
from mgw.cli.main import main
from mgw.cli.parser import ALL, COMMANDS, Command, build_parser
from mgw.cli.wrong_calls import GUESSES, commands_of
from mgw.config.location import DEFAULT_FILE
from tests.support.waiting import WAIT_SECONDS

ROOT = Path(__file__).resolve().parents[3]

NAMES = [command.name for command in COMMANDS]
Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_command_is_a_row_and_its_module(command: Command) -> None:
    module = command.load()
    assert callable(module.add_arguments)
    assert callable(module.run)


def status_of(*words: str) -> int:
    """Run a command; argparse ends in its own way."""
    try:
        return main(words)
    except SystemExit as end:
        return int(end.code or 0)


def file_of(*words: str) -> str | None:
    """Return the configuration file that a command would use."""
    said = build_parser(words[0]).parse_args(words)
    settle_file(said)
    file: str | None = said.config
    return file


@pytest.mark.parametrize("command", ["run", "check", "models", "usage", "requests"])
def test_the_file_is_an_argument_or_an_option_or_the_default(command: str) -> None:
    assert file_of(command, "a.yaml") == "a.yaml"
    assert file_of(command, "-c", "a.yaml") == file_of(command, "--config=a.yaml") == "a.yaml"
    assert file_of(command) == DEFAULT_FILE


@pytest.mark.parametrize("command", ["run", "check", "models", "usage", "requests"])
def test_one_file_in_both_places_is_one_file(command: str) -> None:
    assert Path(str(file_of(command, "a.yaml", "-c", "./a.yaml"))) == Path("a.yaml")


@pytest.mark.parametrize("command", ["run", "check", "models", "usage", "requests"])
def test_two_files_are_an_error_that_names_both(command: str, capsys: Capture) -> None:
    assert status_of(command, "a.yaml", "-c", "b.yaml") == 2
    assert capsys.readouterr().err == (
        f"mgw {command}: two configuration files, a.yaml and -c b.yaml: name only one\n"
    )
    with pytest.raises(TwoFilesError):
        file_of(command, "-c", "b.yaml", "a.yaml")


def test_an_empty_name_is_not_the_default() -> None:
    assert file_of("run", "") == file_of("run", "-c", "") == ""


def test_where_the_argument_is_another_one_the_file_is_an_option() -> None:
    assert file_of("routes", "batches", "-c", "a.yaml") == "a.yaml"
    assert file_of("routes", "batches") is None
    assert file_of("auth", "status", "work") == DEFAULT_FILE
    assert file_of("auth", "import", "work", "tokens.json", "-c", "a.yaml") == "a.yaml"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("chekc", "check"),
        ("Run", "run"),
        ("serve", "run"),
        ("start", "run"),
        ("validate", "check"),
        ("login", "auth login"),
        ("logs", "tail"),
        ("auth lgoin", "auth login"),
        ("mgw.yaml", "run mgw.yaml"),
        ("help chekc", "help check"),
        ("help auth lgoin", "help auth login"),
    ],
)
def test_a_command_that_is_not_there_leads_to_the_one_that_is(
    words: str, meant: str, capsys: Capture
) -> None:
    assert status_of(*words.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("mgw: unknown command '")
    assert captured.err.endswith(f"; did you mean: mgw {meant}\n")


def test_a_word_that_resembles_no_command_is_answered_with_all_of_them(capsys: Capture) -> None:
    assert status_of("frobnicate\x1b[2J") == 2
    assert capsys.readouterr().err == (
        f"mgw: unknown command 'frobnicate\\x1b[2J'; the commands are {', '.join(NAMES)}\n"
    )


def test_every_guess_leads_to_a_command() -> None:
    tree = commands_of(build_parser(ALL))
    for guess in GUESSES.values():
        parser = tree[guess.split()[0]]
        assert not guess.split()[1:] or guess.split()[1] in commands_of(parser)


def test_help_is_a_command_and_an_option(capsys: Capture) -> None:
    for words in ((), ("run",), ("auth",), ("auth", "login")):
        assert status_of("help", *words) == 0
        by_command = capsys.readouterr()
        assert status_of(*words, "--help") == 0
        assert by_command == capsys.readouterr()
        assert by_command.out.startswith(f"usage: {' '.join(('mgw', *words))} ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "run --port 9000",
            "mgw run: unknown option --port; the address is listen in the configuration file",
        ),
        ("run mgw.yaml --host 0.0.0.0", "mgw run: unknown option --host; the address is listen in the c"),
        (
            "run --workers=2",
            "mgw run: unknown option --workers; workers is a setting in the configuration file",
        ),
        ("run --log-fiel x", "mgw run: unknown option --log-fiel; did you mean --log-file?"),
        ("run a.yaml b.yaml", "mgw run: unexpected argument 'b.yaml'; its options: mgw help run"),
        ("check --strict", "mgw check: unknown option --strict; its options: mgw help check"),
        ("auth status -x", "mgw auth status: unknown option -x; its options: mgw help auth status"),
        (
            "auth status --key=sk-canary",
            "mgw auth status: unknown option --key; its options: mgw help auth s",
        ),
        ("--config mgw.yaml run", "mgw: options follow the command: mgw run --config mgw.yaml"),
        ("-c mgw.yaml check", "mgw: options follow the command: mgw check -c mgw.yaml"),
        ("-v", "mgw: unknown option -v; did you mean --version?"),
        ("--frobnicate", "mgw: unknown option --frobnicate; its options: mgw help"),
    ],
)
def test_an_option_that_is_not_there_leads_to_what_is(words: str, said: str, capsys: Capture) -> None:
    assert status_of(*words.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(said)
    assert captured.err.count("\n") == 1
    assert "canary" not in captured.err


def test_a_shell_is_asked_for_by_the_names_that_there_are(capsys: Capture) -> None:
    assert status_of("completion") == 2
    assert "mgw completion {bash,zsh,fish}" in " ".join(capsys.readouterr().err.replace("[-h] ", "").split())


@pytest.mark.parametrize("words", [("version",), ("--version",), ("-V",)])
def test_the_version_is_a_command_and_an_option(words: tuple[str, ...], capsys: Capture) -> None:
    assert status_of(*words) == 0
    assert capsys.readouterr().out == f"mgw {__version__}\n"


@pytest.mark.parametrize("words", [(), ("auth",)])
def test_without_a_command_the_help_is_shown_and_the_status_is_2(
    words: tuple[str, ...], capsys: Capture
) -> None:
    assert status_of(*words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "commands:" in captured.err


def test_ctrl_c_exits_with_130_and_no_traceback(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def interrupt(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("mgw.cli.example.run", interrupt)
    assert status_of("example") == 130
    assert capsys.readouterr().err == "\n"


def test_a_pipe_that_is_closed_is_no_error_to_speak_of() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m mgw.cli.main example | head -1; echo ${{PIPESTATUS[0]}}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] in ("0", "1")


def parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    below = [one for each in commands_of(parser).values() for one in parsers(each)]
    return [parser, *below]


@pytest.mark.parametrize("parser", parsers(build_parser(ALL)), ids=lambda parser: parser.prog)
def test_every_option_is_explained_and_every_example_is_taken(
    parser: argparse.ArgumentParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert all(len(line) <= 80 for line in parser.format_help().splitlines()), parser.format_help()
    shown = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    assert [action.dest for action in shown if not action.help and not commands_of(parser)] == []
    for line in re.findall(r"^  mgw (.*)$", parser.epilog or "", re.MULTILINE):
        for call in re.split(r" && (?:mgw )?", line.partition(" #")[0].partition(" > ")[0]):
            words = call.replace("COMMAND", "run").split()
            build_parser(words[0]).parse_args(words)
