"""What takes a privilege, behind one seam: uids, groups, disks, a view of the host, starting, signalling, clearing up."""

from cellhouse.sandbox.privileged.command import STARTER_SAYS, View, starter_remedy
from cellhouse.sandbox.privileged.here import Here
from cellhouse.sandbox.privileged.seam import Privileged, Seen, Start, Started
from cellhouse.sandbox.privileged.uids import DEFAULT_UIDS, Identity, UidRange

__all__ = [
    "DEFAULT_UIDS",
    "STARTER_SAYS",
    "Here",
    "Identity",
    "Privileged",
    "Seen",
    "Start",
    "Started",
    "UidRange",
    "View",
    "starter_remedy",
]
