"""The documentation site, as far as that can be seen without building it.

Laws: every public name is on a page of the reference, once, and nothing else is; every
page is in a table of contents, so that a reader finds it; the checker of a built site
sees what is broken, what is fetched from elsewhere, and rows outside of their tables.
"""

import re
import sys
from pathlib import Path

import pytest

import smoothcruiser as sc

DOCS = Path(__file__).parents[3] / "docs"
sys.path.insert(0, str(DOCS / "_site"))

import check  # noqa: E402


def test_every_public_name_is_on_one_page_of_the_reference():
    pages = "\n".join(p.read_text() for p in sorted(DOCS.glob("reference/*.md")))
    shown = re.findall(r"^\.\. auto\w+:: smoothcruiser\.(\w+)$", pages, re.MULTILINE)
    assert sorted(shown) == sorted(sc.__all__)


def test_every_page_is_in_a_table_of_contents():
    listed = {"index"}
    for page in DOCS.rglob("*.md"):
        for body in re.findall(
            r"```\{toctree\}\n(.*?)```", page.read_text(), re.DOTALL
        ):
            for line in body.splitlines():
                if line and not line.startswith(":"):
                    found = page.parent.glob(f"{line}.md")
                    listed |= {str(p.relative_to(DOCS).with_suffix("")) for p in found}
    outside = {"evidence/reproduce/README"}  # for those who look into the folder
    pages = {str(p.relative_to(DOCS).with_suffix("")) for p in DOCS.rglob("*.md")}
    pages = {page for page in pages if not page.startswith("_")}
    assert pages - listed - outside == set()


GOOD = '<h1 id="top">x</h1><a href="b.html#there">b</a><img src="data:image/png,">'


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (GOOD, None),
        ('<a href="https://example.org/">elsewhere</a>', None),
        ('<a href="c.html">c</a>', "leads to no file"),
        ('<a href="b.html#nowhere">b</a>', "leads to no element"),
        ('<script src="https://example.org/x.js"></script>', "fetches https"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "fetches //"),
        ('<img src="gone.png">', "leads to no file"),
        ('<p style="background: url(https://example.org/x.png)">', "fetches https"),
        ("<p>| a row | no table |</p>", "outside of its table"),
        ("<p>the norm |x| of x</p>", None),
    ],
)
def test_the_checker_sees_what_is_broken_or_fetched(tmp_path, page, said):
    (tmp_path / "a.html").write_text(page)
    (tmp_path / "b.html").write_text('<h2 id="there">b</h2>')
    found = check.flaws(tmp_path)
    assert (said is None and not found) or said in found[0]


def test_the_checker_reads_style_sheets_and_scripts(tmp_path):
    (tmp_path / "a.html").write_text(GOOD.replace("b.html#there", "#top"))
    assert check.flaws(tmp_path) == []
    (tmp_path / "a.css").write_text("@font-face { src: url(https://example.org/f) }")
    (tmp_path / "a.js").write_text('fetch("https://example.org/data.json")')
    assert len(check.flaws(tmp_path)) == 2
