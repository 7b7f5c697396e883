"""Pictures of results, one module per object; ``plot`` of the object calls its ``draw``.

Objects are made upstream and must not import this package: they name the module
(``records.data``). Every ``draw`` takes the object and an Axes, or None for a
figure of its own, and returns the Axes. This is where matplotlib is imported (extra
``report``). Nothing here computes a promise.
"""
