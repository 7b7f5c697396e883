"""Exports of results: JSON with a schema, tables, pictures.

  numbers   NaN, infinity and huge counts as JSON data
  states    states as JSON data
  shapes    a type -> how its values are written, read and described
  data      ``Data``: to_dict, from_dict, to_json, from_json; ``schema``
  alike     whether two results are equal
  frames    tables (``Framed``: to_frame) and pictures (plot)

This package leaves out the classes themselves, and how they are drawn
(``smoothcruiser.plots``). The files in ``schema`` are written from the classes by
``tests/unit/records/test_schemas.py``.
"""
