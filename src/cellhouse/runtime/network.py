"""The network policy of a runtime: what can be asked for, what is in force, what its code is told."""

from typing import Final

from cellhouse.model import (
    CallReason,
    FailedPrecondition,
    Isolation,
    NetworkPolicy,
    NetworkSettings,
)
from cellhouse.model.network import VARIABLE, in_words
from cellhouse.sandbox import IN_FORCE

PORT: Final = 3128
"""Where the bridge listens: on a loopback that is the sandbox's alone."""
LOG_NAME: Final = "_network.jsonl"
"""Beside the logs of sessions; no session can have this name."""

_PROXY: Final = f"http://127.0.0.1:{PORT}"
_NO_PROXY: Final = "localhost,127.0.0.1,::1"


def is_walled(report: Isolation) -> bool:
    """Whether nothing of the host's network is inside."""
    return any(layer.name == "network" and layer.status == IN_FORCE for layer in report.layers)


def policy_in_force(policy: NetworkPolicy | None, report: Isolation) -> str:
    """`none`, `allow`, `open`; `host` where nothing was asked for and no wall holds the network."""
    if is_walled(report):
        return "none" if policy is None else policy.policy
    return "host" if policy is None else policy.policy


def policies(report: Isolation, settings: NetworkSettings) -> tuple[str, ...]:
    """What can be asked for where walls are such; the first is what a runtime has that doesn't say."""
    held = ("none", *(("allow",) if settings.may_allow or settings.private else ()))
    return (*(held if is_walled(report) else ("host",)), *(("open",) if settings.may_open else ()))


def require_network(policy: NetworkPolicy | None, report: Isolation) -> None:
    """FailedPrecondition where the walls that stand are not those for this policy."""
    if policy is None or is_walled(report) is (policy.policy != "open"):
        return
    text = (
        f"network: isolation {report.level!r} leaves the host's network open to all code, so policy {policy.policy!r} "
        "can't be held; ask for another isolation, or leave network out"
        if policy.policy != "open"
        else f"network: isolation {report.level!r} can't leave out its wall round the network; leave network out"
    )
    raise FailedPrecondition(
        text,
        reason=CallReason.POLICY_UNAVAILABLE,
        metadata={"network": policy.policy, "isolation": report.level},
    )


def network_variables(policy: NetworkPolicy | None, report: Isolation) -> dict[str, str]:
    """What code inside is told: the policy in words, and the proxy where there is one."""
    if not is_walled(report):
        return {VARIABLE: in_words(NetworkPolicy(policy="open"))}
    told = {VARIABLE: in_words(policy)}
    if policy is not None and policy.policy == "allow":
        for name, value in (("http_proxy", _PROXY), ("https_proxy", _PROXY), ("no_proxy", _NO_PROXY)):
            told[name] = told[name.upper()] = value
    return told
