"""``vergence``: finds the command and runs it. Nothing heavy is imported before that."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from vergence._version import __version__
from vergence.core.errors import VergenceError, did_you_mean
from vergence.core.parent import watch_parent

COMMANDS = {
    "list": ("pages", "list the systems"),
    "show": ("pages", "one system's page"),
    "cite": ("pages", "citation of a system"),
    "run": ("run", "train a system and its baselines, check its claims, write a report"),
    "train": ("train", "train one variant, on embedded data or your own"),
    "eval": ("use", "evaluate trained weights by the paper's protocol"),
    "predict": ("use", "use a system on your files"),
    "tour": ("tour", "every system that is ready for use, on its own example, on one page"),
    "weights": ("weights", "starter weights of the systems, and their metrics"),
    "claims": ("claims", "which claims hold: statement, expected, measured, verdict"),
    "bench": ("bench", "time and memory relative to peers and the plain form"),
    "export": ("export", "export trained weights to ONNX or torch.export"),
    "compare": ("compare", "differences between runs: config, environment, metrics, curves"),
    "data": ("data", "check that a data set is complete and readable"),
    "gallery": ("gallery", "systems, reports and live demos as a local web page"),
    "new": ("new", "create the files of a new system in a source checkout"),
    "doctor": ("doctor", "check the installation"),
    "completion": ("completion", "a script that completes commands, names and flags in your shell"),
}

USAGE = f"""Vergence {__version__}: published vision systems as one PyTorch library.

usage: vergence COMMAND [NAME] [OPTIONS]

{chr(10).join(f"  {name:<11} {text}" for name, (_, text) in COMMANDS.items())}

Help: vergence COMMAND --help, or vergence COMMAND NAME --help for all options of a system.
"""

GREETING = """Vergence runs published vision systems from the command line. Four things to try first:

  vergence list               list the systems
  vergence show snl           what one does and how to use it
  vergence run snl            train it with its baselines and write a report (minutes)
  vergence predict snl a.png  use it on a picture

All commands: vergence --help. If something does not work: vergence doctor.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 2 for wrong input, 1 for a run that failed, 128 + signal."""
    args = list(sys.argv[1:] if argv is None else argv)
    if not args:
        print(GREETING)
        return 0
    command, rest = args[0], [_hyphens(arg) for arg in args[1:]]
    if command in ("-h", "--help", "help"):
        print(USAGE)
        return 0
    if command in ("-V", "--version", "version"):
        print(f"vergence {__version__}")
        return 0
    try:
        for arg in args:
            _refuse_what_is_no_text(arg)
        if command not in COMMANDS:
            raise VergenceError(f"no command {command!r}{did_you_mean(command, COMMANDS)}")
        module = importlib.import_module(f"vergence.cli.{COMMANDS[command][0]}")
        with _printable():
            code: int = getattr(module, command)(rest)
            sys.stdout.flush()
        return code
    except VergenceError as error:
        print(f"vergence: {' '.join(str(error).split())}", file=sys.stderr)  # one line, whatever a file is called
        return error.exit_code
    except SystemExit as leave:  # from the option parser, which has printed the error
        return leave.code if isinstance(leave.code, int) else 2
    except KeyboardInterrupt:
        print("vergence: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the output pipe was closed, as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # such as a name too long, or a folder without permission
        named = f"{error.filename}: " if error.filename else ""
        print(f"vergence: {' '.join(f'{named}{error.strerror or error}'.split())}", file=sys.stderr)
        return 2


def _refuse_what_is_no_text(arg: str) -> None:
    """Refuse arguments with zero bytes or characters that the file system cannot encode."""
    try:
        os.fsencode(arg)
    except UnicodeEncodeError:
        raise VergenceError(f"{arg!r} is not text") from None
    if "\0" in arg:
        raise VergenceError(f"{arg!r} has a zero byte in it")


@contextmanager
def _printable() -> Iterator[None]:
    """Escape characters that standard output cannot encode, since file names may contain any."""
    out = sys.stdout
    errors = getattr(out, "errors", None)
    if not isinstance(out, io.TextIOWrapper) or errors != "strict":
        yield
        return
    out.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        out.reconfigure(errors=errors)


def _hyphens(arg: str) -> str:
    """``--from_run`` becomes ``--from-run``; text after an equals sign is unchanged."""
    flag, equals, value = arg.partition("=")
    return flag.replace("_", "-") + equals + value if flag.startswith("--") else arg


def entry() -> None:
    """The console script."""
    watch_parent()
    code = main()
    if "LOCAL_WORLD_SIZE" in os.environ:  # torchrun started it
        from vergence.engine.distribute import leave

        leave(code)
    sys.exit(code)
