"""What a token lets its bearer do."""

from enum import StrEnum


class Scope(StrEnum):
    """What a caller may do; none includes another."""

    READ = "read"
    EXECUTE = "execute"
    ADMIN = "admin"
