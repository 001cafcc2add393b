"""The network that a runtime may reach: a proxy outside its walls that decides, and counts, and tells."""

from cellhouse.network.decisions import (
    Decision,
    Reason,
    Refused,
)
from cellhouse.network.gate import (
    Gate,
)
from cellhouse.network.proxy import (
    Proxy,
)

__all__ = [
    "Decision",
    "Gate",
    "Proxy",
    "Reason",
    "Refused",
]
