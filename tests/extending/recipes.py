"""The recipes of docs/extending.md as modules: what the page shows is what the tests run."""

import importlib
import re
import sys
from contextlib import contextmanager
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "extending.md"


def recipe(heading):
    """The Python of a section of the page: its code blocks, one after the other."""
    section = PAGE.read_text().split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    blocks = re.findall(r"^```python\n(.*?)^```$", section, flags=re.M | re.S)
    assert blocks, f"the section {heading!r} of docs/extending.md has no Python"
    return "\n\n".join(blocks)


@contextmanager
def written(heading, folder):
    """The recipe as an imported module of ``folder``, forgotten afterwards."""
    name = "recipe_" + re.sub(r"\W+", "_", heading.lower())
    (folder / f"{name}.py").write_text(recipe(heading))
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop(name, None)
