"""The recipe of docs/extending.md for an object that shows itself."""

import recipes

import smoothcruiser as sc
from smoothcruiser import displayable as shown


def test_an_object_that_shows_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(shown, "BUILDERS", dict(shown.BUILDERS))
    with recipes.written("An object that shows itself", tmp_path) as recipe:
        ledger = recipe.Ledger({"shop": 1200, "<b>" + "x" * 90: 34})
        text = ledger.summary()
        assert text.splitlines()[:4] == [
            "Ledger",
            "",
            f"  {'project':<71}  calls",
            f"  {'shop':<71}  1,200",
        ]
        assert "1,234 oracle calls" in text
        assert all(len(line) <= 80 for line in text.splitlines())
        assert "&lt;b&gt;" in ledger._repr_html_()
        assert repr(ledger) == "Ledger(projects=2)"
        written = sc.report(ledger, tmp_path / "ledger.html")
        assert "1,234 oracle calls" in written.read_text("utf-8")
