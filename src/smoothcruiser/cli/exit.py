"""How a command ends: exit codes, and an error as a sentence on standard error."""

from __future__ import annotations

# Ended by a signal: 128 + its number, the shell's convention, so Ctrl-C is 130.
OK, UNEXPECTED, REFUSED, SIGNALLED = 0, 1, 2, 128
STOPPED = SIGNALLED + 2


def complain(sentence: str) -> None:
    """Print an error on standard error; its first line is the sentence."""
    from rich.console import Console
    from rich.text import Text

    out = Console(stderr=True, highlight=False)
    first, *rest = sentence.split("\n")
    head = Text("Error: ", style="bold red").append(first, style="default")
    out.print(head, soft_wrap=True)
    for line in rest:
        out.print(Text(line), soft_wrap=True)
