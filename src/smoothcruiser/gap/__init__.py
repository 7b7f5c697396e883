"""Two-sided limits on V from paths, and on the worth of a policy."""

import sys
from types import ModuleType


class _Verb(ModuleType):  # until the folder has a name of its own: /tmp/gap_rename.sh
    def __call__(self, *args, **keywords):  # type: ignore[no-untyped-def]
        from smoothcruiser.gap.request_reading import gap

        return gap(*args, **keywords)


sys.modules[__name__].__class__ = _Verb
