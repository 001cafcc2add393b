"""Environment variables that hold for one execution only, in a Python kernel."""

import json
from collections.abc import Mapping

_HOLD = "_cellhouse_variables"

_SET = """
import json, os, sys
new = json.loads({document!r})
sys.modules[{hold!r}] = {{name: os.environ.get(name) for name in new}}
os.environ.update(new)
"""

_KEEP = """
import json, os
os.environ.update(json.loads({document!r}))
"""

_RESTORE = """
import os, sys
for name, value in (sys.modules.pop({hold!r}, None) or {{}}).items():
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
"""


def setting_code(variables: Mapping[str, str]) -> str:
    """Code for a silent request that sets them and remembers what was there; touches no name of the user's."""
    return f"exec({_SET.format(document=json.dumps(dict(variables)), hold=_HOLD)!r}, {{}})"


def keeping_code(variables: Mapping[str, str]) -> str:
    """Code for a silent request that sets them for good."""
    return f"exec({_KEEP.format(document=json.dumps(dict(variables)))!r}, {{}})"


def restoring_code() -> str:
    """Code for a silent request that puts back what `setting_code` remembered."""
    return f"exec({_RESTORE.format(hold=_HOLD)!r}, {{}})"
