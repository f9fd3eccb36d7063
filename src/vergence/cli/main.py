"""``vergence``: finds the command and runs it. Nothing heavy is imported before one is chosen."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from vergence._version import __version__
from vergence.core.errors import VergenceError, did_you_mean

COMMANDS = {
    "list": ("pages", "the systems there are"),
    "show": ("pages", "one system's page"),
    "cite": ("pages", "how to refer to a system"),
    "run": ("run", "train a system and its baselines, check its claims, write a report"),
    "train": ("train", "train one variant, on embedded data or your own"),
    "eval": ("use", "judge trained weights by the paper's protocol"),
    "predict": ("use", "use a system on your files"),
    "weights": ("weights", "starter weights that come with systems, and how good they are"),
    "claims": ("claims", "which claims hold: statement, expected, measured, verdict"),
    "bench": ("bench", "cost against peers and the plain form, as ratios"),
    "export": ("export", "trained weights as a file for ONNX or torch.export"),
    "compare": ("compare", "what changed between runs: config, environment, metrics, curves"),
    "data": ("data", "check that a data set is whole"),
    "gallery": ("gallery", "the systems, reports and live demos as a web page on this machine"),
    "new": ("new", "the files of a new system, laid out in a source checkout"),
    "doctor": ("doctor", "check that this set-up is sound"),
    "completion": ("completion", "a script that completes commands, names and flags in your shell"),
}

USAGE = f"""Vergence {__version__}: published vision systems as one PyTorch library.

usage: vergence COMMAND [NAME] [OPTIONS]

{chr(10).join(f"  {name:<11} {text}" for name, (_, text) in COMMANDS.items())}

Every command explains itself: vergence COMMAND --help, or vergence COMMAND NAME --help for all options of a system.
"""

GREETING = """Vergence turns a published vision system into a command. Four things to do first:

  vergence list               see which systems there are
  vergence show snl           read what one is and how to use it
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
    except SystemExit as leave:  # from the option parser, after it has said what was wrong
        return leave.code if isinstance(leave.code, int) else 2
    except KeyboardInterrupt:
        print("vergence: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a name too long, a folder that may not be read: where, and what the system says
        named = f"{error.filename}: " if error.filename else ""
        print(f"vergence: {' '.join(f'{named}{error.strerror or error}'.split())}", file=sys.stderr)
        return 2


def _refuse_what_is_no_text(arg: str) -> None:
    """A file name or an option holds no zero byte and nothing that the system cannot write."""
    try:
        os.fsencode(arg)
    except UnicodeEncodeError:
        raise VergenceError(f"{arg!r} is not text") from None
    if "\0" in arg:
        raise VergenceError(f"{arg!r} has a zero byte in it")


@contextmanager
def _printable() -> Iterator[None]:
    """What standard output has no sign for is printed by its number: a file may be called anything."""
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
    """``--from_run`` is ``--from-run``; what follows an equals sign stays."""
    flag, equals, value = arg.partition("=")
    return flag.replace("_", "-") + equals + value if flag.startswith("--") else arg


def entry() -> None:
    """The console script."""
    code = main()
    if "LOCAL_WORLD_SIZE" in os.environ:  # torchrun started it
        from vergence.engine.distribute import leave

        leave(code)
    sys.exit(code)
