"""The flags about a job's output files."""

from __future__ import annotations

FILE_FLAGS = (
    (
        "--output",
        "output",
        "FILE",
        "write stdout there, too: %%j job, %%a index, %%x name, %%N node, %%u user",
    ),
    ("--error", "error", "FILE", "write stderr there, too (default: as --output)"),
    ("--open-mode", "open_mode", "MODE", "truncate or append (default: begin anew, later attempts append)"),
)
