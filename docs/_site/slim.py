"""Make SVG figures smaller and easier to compare: coordinates with two decimals.

    python docs/_site/slim.py docs/evidence

Matplotlib writes six decimals, a millionth of a point. Its version and the random names
of clip paths, which differ from run to run, are left out or numbered.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

NUMBER = re.compile(r"(?<![\w#.])-?\d+\.\d{3,}(?![\w%])")
CLIP = re.compile(r'(?<=id=")p[0-9a-f]{10}(?=")')
ABOUT = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)


def slim(text: str) -> str:
    """The same picture in fewer bytes."""
    for number, name in enumerate(dict.fromkeys(CLIP.findall(text))):
        text = text.replace(name, f"clip{number}")
    text = ABOUT.sub("", text)
    return NUMBER.sub(
        lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), text
    )


if __name__ == "__main__":
    for path in sorted(Path(sys.argv[1]).rglob("*.svg")):
        path.write_text(slim(path.read_text("utf-8")), "utf-8")
