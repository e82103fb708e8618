"""``mgw run|check|sim|auth|routes|models|usage|tail|schema|example``: all of it, without twistd's options.

Each command imports what it needs, so that ``mgw --help`` does not wait for Twisted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import mgw

_DEFAULT_FILE = "/etc/mgw.yaml"  # mgw.check has it too, and is slow to import
_Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status.

    :param arguments: those behind the command's name; ``None``: this process's own.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    parser = _parser("".join(words[:1]))
    said = parser.parse_args(words)
    command: _Command | None = said.command
    if command is None:
        parser.print_help(sys.stderr)
        return 2
    try:
        return command(said)
    except BrokenPipeError:  # `mgw example | head`
        sys.stderr.close()
        return 1


def _parser(wanted: str) -> argparse.ArgumentParser:
    """Describe the command line; what takes time to import is imported for the wanted command alone."""
    parser = argparse.ArgumentParser(
        prog="mgw",
        description="A multi-dialect model gateway.",
        epilog="To begin: mgw example > mgw.yaml, edit the file, mgw check -c mgw.yaml, mgw run -c mgw.yaml",
    )
    parser.add_argument("--version", action="version", version=f"mgw {mgw.__version__}")
    parser.set_defaults(command=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    run = _add(commands, "run", _run, "run the gateway in the foreground, logging to standard error")
    _add_file(run)
    run.add_argument("--log-file", metavar="FILE", help="log to this file; SIGHUP reopens it")
    run.add_argument("--demo", action="store_true", help=argparse.SUPPRESS)

    check = _add(commands, "check", _check, "check the configuration and print where requests will go")
    _add_file(check)

    sim = _add(commands, "sim", _sim, "run a simulated provider that needs no key")
    sim.add_argument(
        "-l",
        "--listen",
        metavar="HOST:PORT",
        default="127.0.0.1:8788",
        help="where to listen; port 0 picks a free one (%(default)s)",
    )
    if wanted == "auth":
        from mgw.cli.auth import add_commands

        auth = _add(commands, "auth", _auth, "log in to accounts of subscriptions, and keep them")
        add_commands(auth.add_subparsers(title="commands", metavar="COMMAND", required=True), _add_file)
    else:
        _add(commands, "auth", _auth, "log in to accounts of subscriptions, and keep them")
    routes = _add(commands, "routes", _routes, "list the requests that the gateway takes")
    models = _add(commands, "models", _models, "list the models that a configuration offers")
    usage = _add(commands, "usage", _usage, "add up the usage events in the SQLite file of hooks.sqlite")
    if wanted == "usage":
        from mgw.cli import usage as usage_command

        usage_command.add_arguments(usage, _DEFAULT_FILE)
    if wanted == "routes":
        from mgw.cli import routes as routes_command

        routes_command.add_arguments(routes)
    if wanted == "models":
        from mgw.cli import models as models_command

        models_command.add_arguments(models, _DEFAULT_FILE)
    follow = _add(commands, "tail", _tail, "print the events of a running gateway as they happen")
    if wanted == "tail":
        from mgw.cli import tail as tail_command

        tail_command.add_arguments(follow)
    _add(commands, "schema", _schema, "print a JSON schema of the configuration, for editors")
    example = _add(commands, "example", _example, "print a configuration with every setting, explained")
    example.add_argument(
        "name",
        nargs="?",
        default="mgw.yaml",
        help="another file that comes with the gateway, as prometheus-alerts.yaml; a wrong name lists them",
    )
    return parser


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, command: _Command, does: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=does, description=f"{does[0].upper()}{does[1:]}.")
    parser.set_defaults(command=command)
    return parser


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-c", "--config", metavar="FILE", default=_DEFAULT_FILE, help="the configuration file (%(default)s)"
    )


def _run(said: argparse.Namespace) -> int:
    from mgw.cli.process import serve

    demo = ["--demo"] if said.demo else []
    return serve(["-c", said.config, *demo], said.log_file)


def _check(said: argparse.Namespace) -> int:
    from mgw.check import check, reader_of

    return check(reader_of(said.config))


def _sim(said: argparse.Namespace) -> int:
    from twisted.python.usage import UsageError

    from mgw.simulator.__main__ import main as simulate
    from mgw.simulator.daemon import parse_listen

    try:
        parse_listen(said.listen)
    except UsageError as error:
        sys.stderr.write(f"mgw sim: {error}\n")
        return 2
    return simulate(["--listen", said.listen, "--announce-port"])


def _auth(_: argparse.Namespace) -> int:
    raise AssertionError("the parser wants one of the commands below it")


def _usage(said: argparse.Namespace) -> int:
    from mgw.cli.usage import report

    return report(said)


def _tail(said: argparse.Namespace) -> int:
    from mgw.cli.tail import tail

    return tail(said)


def _routes(said: argparse.Namespace) -> int:
    from mgw.cli.routes import report

    return report(said)


def _models(said: argparse.Namespace) -> int:
    from mgw.cli.models import report

    return report(said)


def _schema(_: argparse.Namespace) -> int:
    from mgw.config.schema import schema_text

    sys.stdout.write(schema_text())
    return 0


def _example(said: argparse.Namespace) -> int:
    """Print a file of ``etc``: from the package where it is installed, else from the sources beside it."""
    package = Path(mgw.__file__).parent
    for folder in (package / "etc", package.parent / "etc"):
        files = {file.name: file for file in [*folder.glob("*.*"), *folder.glob("deployment/*.*")]}
        if said.name in files:
            sys.stdout.write(files[said.name].read_text(encoding="utf-8"))
            return 0
        if files:
            sys.stderr.write(
                f"mgw example: no file is named {said.name}; there are {', '.join(sorted(files))}\n"
            )
            return 2
    raise SystemExit("mgw: the example configuration was not installed")


if __name__ == "__main__":
    sys.exit(main())
