"""Whether a built site is whole: links lead somewhere, nothing is fetched, tables are tables.

    python docs/_site/check.py docs/_build/html

Laws: every link inside the site leads to a file of it, and to an element if it has a
fragment; no page, style sheet or script of the site loads anything from elsewhere. Links
that a reader may follow to elsewhere are allowed. No paragraph begins with ``| ``: a row
that an empty line parts from its table. Standard library alone.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# what a browser fetches by itself, by element
FETCHED = {
    "img": ("src", "srcset"),
    "script": ("src",),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
    "audio": ("src",),
    "embed": ("src",),
    "object": ("data",),
    "link": ("href",),
    "use": ("href", "xlink:href"),
    "image": ("href", "xlink:href"),
}
QUIET_RELATIONS = {"canonical", "search", "index", "next", "prev", "license", "author"}
OUTSIDE = re.compile(r"^(?:[a-z]+:)?//", re.IGNORECASE)
IN_STYLE = re.compile(
    r"url\(\s*['\"]?((?:[a-z]+:)?//[^)'\"]+)|@import\s+['\"]([^'\"]+)"
)
IN_SCRIPT = re.compile(
    r"(?:fetch|importScripts|import)\(\s*['\"`](?:https?:)?//[^'\"`]+"
    r"|\.src\s*=\s*['\"`](?:https?:)?//[^'\"`]+"
)


class Page(HTMLParser):
    """The links, the anchors, the fetched addresses and the stray rows of one page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.fetched: list[str] = []
        self.rows: list[str] = []  # of tables, as text
        self._begins = False  # a paragraph, with the next text

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element names."""
        self._begins = tag == "p"
        values = {name: value or "" for name, value in attrs}
        self.anchors.update(values[key] for key in ("id", "name") if key in values)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        relation = set(values.get("rel", "").split())
        if tag == "link" and relation and relation <= QUIET_RELATIONS:
            return
        for key in FETCHED.get(tag, ()):
            parts = (
                values.get(key, "").split(",")
                if key == "srcset"
                else [values.get(key, "")]
            )
            self.fetched += [part.split()[0] for part in parts if part.strip()]
        self.fetched += [
            found[0] or found[1] for found in IN_STYLE.findall(values.get("style", ""))
        ]

    def handle_data(self, data: str) -> None:
        """Note a paragraph that is a row of a table."""
        if self._begins and data.startswith("| "):
            self.rows.append(data.split("\n")[0][:40])
        self._begins = False


def flaws(site: Path) -> list[str]:
    """What is wrong with a site, one sentence each."""
    pages: dict[Path, Page] = {}
    found: list[str] = []
    for path in sorted(site.rglob("*.html")):
        page = Page()
        page.feed(path.read_text("utf-8"))
        pages[path.resolve()] = page
    for path, page in pages.items():
        shown = path.relative_to(site.resolve())
        found += [f"{shown}: a row outside of its table: {row}" for row in page.rows]
        for address in page.fetched:
            if OUTSIDE.match(address):
                found.append(f"{shown} fetches {address}")
            elif not address.startswith(("data:", "#")):
                page.links.append(address)
        found += [
            f"{shown}: {why}"
            for link in page.links
            if (why := _broken(link, path, pages))
        ]
    for pattern, suffix in ((IN_STYLE, "css"), (IN_SCRIPT, "js")):
        for path in sorted(site.rglob(f"*.{suffix}")):
            for match in pattern.finditer(path.read_text("utf-8")):
                if "//" in match[0]:
                    found.append(f"{path.relative_to(site)} fetches {match[0]}")
    if not pages:
        found.append(f"{site} has no pages")
    return found


def _broken(link: str, path: Path, pages: dict[Path, Page]) -> str | None:
    """Why a link of a page leads nowhere; None if it does not, or leads elsewhere."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc or link.startswith("data:"):
        return None
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return f"{link} leads to no file"
    fragment = unquote(parts.fragment)
    if fragment and target in pages and fragment not in pages[target].anchors:
        return f"{link} leads to no element of {target.name}"
    return None


if __name__ == "__main__":
    wrong = flaws(Path(sys.argv[1]))
    print(
        "\n".join(wrong) or "links lead somewhere, nothing is fetched from elsewhere"
    )
    sys.exit(bool(wrong))
