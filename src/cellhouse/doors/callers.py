"""Who calls, and what they may: the seam between a door and whatever checks tokens."""

from dataclasses import dataclass
from typing import Protocol

from cellhouse.model import CallReason, PermissionDenied
from cellhouse.tokens import LOCAL_TENANT as LOCAL_TENANT, Scope as Scope

ALL_SCOPES = frozenset(Scope)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls. A tenant (an id like a runtime's) has a house of its own, and sees no other; the principal is for logs."""

    tenant: str
    principal: str
    scopes: frozenset[Scope]

    def require(self, scope: Scope) -> None:
        """PERMISSION_DENIED where the scope is missing."""
        if scope not in self.scopes:
            raise PermissionDenied(
                f"this call takes the scope {scope.value!r}; the token has "
                f"{', '.join(sorted(self.scopes)) or 'none'}. Use a token that has it",
                reason=CallReason.SCOPE_MISSING,
                metadata={"scope": scope.value},
            )


class Authenticator(Protocol):
    """Tells who calls. Asked once for each request, on the event loop: it must not block."""

    def authenticate(self, authorization: str | None) -> Caller:
        """The caller behind the value of the Authorization header (None: there was none, or there were several).

        Raises Unauthenticated (NO_TOKEN), with the same message for every token that is none of ours.
        """
        ...


class LocalAuthenticator:
    """Everybody may everything: for a loopback address or a unix socket, which only this machine's users reach."""

    def authenticate(self, authorization: str | None) -> Caller:
        return Caller(LOCAL_TENANT, "local", ALL_SCOPES)
