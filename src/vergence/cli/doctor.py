"""``vergence doctor``: check the installation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape

from vergence.cli.options import read
from vergence.cli.show import console, document
from vergence.contract.config import to_json
from vergence.core.progress import show_progress
from vergence.runs.folder import ROOT
from vergence.tools.doctor import Finding, examine

DESCRIPTION = """Check the installation: versions, PyTorch's build, its kernels on every device (in a child process),
threads, disk, optional packages, systems, and run folders. Exit code 1 if something is unsound."""

SIGNS = {"sound": "[green]sound[/]", "note": "[yellow]note[/]", "unsound": "[red]unsound[/]"}


@dataclass(frozen=True)
class DoctorOptions:
    runs: Path = ROOT
    """Where run folders are kept."""
    json: bool = False
    """One JSON document on standard output."""
    quiet: bool = False
    """No progress."""


def doctor(args: Sequence[str]) -> int:
    options = read(DoctorOptions, args, "doctor", DESCRIPTION)
    with show_progress(options.quiet) as progress:
        findings = examine(options.runs, progress)
    sound = all(finding.state != "unsound" for finding in findings)
    if options.json:
        document({"sound": sound, "findings": to_json(findings)})
    else:
        _tell(findings, sound)
    return 0 if sound else 1


def _tell(found: Sequence[Finding], sound: bool) -> None:
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for _ in range(3):
        table.add_column(overflow="fold")  # a path that is cut off names nothing
    for finding in found:
        table.add_row(SIGNS[finding.state], escape(finding.what), escape(finding.said))
    console().print(table, highlight=False)
    count = sum(finding.state == "unsound" for finding in found)
    print("this installation is sound" if sound else f"this installation is not sound: {count} unsound")
