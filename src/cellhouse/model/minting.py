"""Makes identifiers: short random ids, time-ordered uids, artifact ids."""

import secrets
import threading
import time
from typing import Final

_BASE36: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_BASE62: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_RANDOM: Final = 10
_ARTIFACT_RANDOM: Final = 22

_uid_lock = threading.Lock()
_last_uid = 0


def _random_digits(alphabet: str, count: int) -> str:
    base = len(alphabet)
    number = secrets.randbelow(base**count)
    digits = []
    for _ in range(count):
        number, digit = divmod(number, base)
        digits.append(alphabet[digit])
    return "".join(digits)


def mint_id(prefix: str) -> str:
    """A new runtime or session id: the prefix, a hyphen, ten random base-36 characters ("rt-4k0zq81m2x")."""
    return f"{prefix.rstrip('-')}-{_random_digits(_BASE36, _ID_RANDOM)}"


def mint_uid() -> str:
    """A new uid: 32 lower-case hex digits, the milliseconds first. In one process each is greater than the last."""
    global _last_uid
    fresh = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    with _uid_lock:
        if fresh <= _last_uid:
            fresh = _last_uid + 1 + secrets.randbits(32)
        _last_uid = fresh
    return f"{fresh:032x}"


def mint_artifact_id() -> str:
    """A new artifact id: `art_` and 22 random base-62 characters (131 bits)."""
    return f"art_{_random_digits(_BASE62, _ARTIFACT_RANDOM)}"
