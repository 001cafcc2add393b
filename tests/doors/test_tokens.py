"""Who is let in by a token, to what, and how little everybody else is told."""

import base64
import json
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cellhouse.doors.bearer import BearerAuthenticator
from cellhouse.doors.callers import ALL_SCOPES
from cellhouse.doors.server import ServeOptions
from cellhouse.model import Unauthenticated, Unavailable
from cellhouse.tokens import NewToken, Scope, TokenBook, TokenStore
from cellhouse.tokens.text import mint_token
from tests.doors.support import Door, ok, opened, raw, refused, within
from tests.runtime.support import Clock, FakeWorld


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> TokenStore:
    return TokenStore(tmp_path / "state", clock)


@pytest.fixture
async def door(fakes: FakeWorld, store: TokenStore, clock: Clock, tmp_path: Path) -> AsyncIterator[Door]:
    """A service with tokens, and nobody's token in its client."""
    authenticator = BearerAuthenticator(TokenBook(store.place, clock))
    async with opened(fakes, tmp_path / "state", authenticator=authenticator) as made:
        yield made


def bearer(made: NewToken | str) -> dict[str, str]:
    return {"authorization": f"Bearer {made if isinstance(made, str) else made.text}"}


async def test_a_token_opens_its_tenants_house_and_no_other(door: Door, store: TokenStore) -> None:
    one, two = store.create(ALL_SCOPES, tenant="one"), store.create(ALL_SCOPES, tenant="two")
    await ok(door.client.post("/v1/runtimes", json={"runtimeId": "mine"}, headers=bearer(one)))
    await ok(door.client.get("/v1/runtimes/mine", headers=bearer(one)))
    await refused(
        door.client.get("/v1/runtimes/mine", headers=bearer(two)), 404, "NOT_FOUND", "NO_SUCH_RUNTIME"
    )
    log = "/v1/runtimes/mine/networkLog"
    assert await ok(door.client.get(log, headers=bearer(one))) == {"entries": []}
    await refused(door.client.get(log, headers=bearer(two)), 404, "NOT_FOUND", "NO_SUCH_RUNTIME")
    assert await ok(door.client.get("/v1/runtimes", headers=bearer(two))) == {"runtimes": []}


async def test_two_tokens_of_a_tenant_share_its_house(door: Door, store: TokenStore) -> None:
    maker, reader = store.create(ALL_SCOPES, tenant="one"), store.create({Scope.READ}, tenant="one")
    await ok(door.client.post("/v1/runtimes", json={"runtimeId": "mine"}, headers=bearer(maker)))
    await ok(door.client.get("/v1/runtimes/mine", headers=bearer(reader)))


async def test_making_and_revoking_hold_from_the_next_request_on(door: Door, store: TokenStore) -> None:
    for _ in range(10):
        made = store.create({Scope.READ})
        await ok(door.client.get("/v1/runtimes", headers=bearer(made)))
        store.revoke(made.token.id)
        await refused(
            door.client.get("/v1/runtimes", headers=bearer(made)), 401, "UNAUTHENTICATED", "NO_TOKEN"
        )


async def test_everything_that_is_refused_is_refused_in_the_same_words(
    door: Door, store: TokenStore, clock: Clock
) -> None:
    good = store.create(ALL_SCOPES)
    await ok(door.client.post("/v1/runtimes", json={"runtimeId": "here"}, headers=bearer(good)))
    revoked = store.create(ALL_SCOPES)
    store.revoke(revoked.token.id)
    expired = store.create(ALL_SCOPES, expires=clock.now())
    basic = base64.b64encode(f"user:{good.text}".encode()).decode()
    credentials: list[dict[str, str]] = [
        {},
        bearer(revoked),
        bearer(expired),
        bearer(mint_token()[1]),
        bearer(good.text[:-1]),
        bearer(good.text + "a"),
        bearer(f"{good.text} {good.text}"),
        bearer(f"{good.text}, Bearer {good.text}"),
        {"authorization": good.text},
        {"authorization": "Bearer"},
        {"authorization": f"Token {good.text}"},
        {"authorization": f"Basic {basic}"},
        {"cookie": f"token={good.text}; authorization=Bearer {good.text}"},
        {"x-api-key": good.text},
        {"proxy-authorization": f"Bearer {good.text}"},
    ]
    answers = set()
    for path in ("/v1/runtimes/here", "/v1/runtimes/none", "/v1/nothing", "/metrics", "/v1/runtimes/here?"):
        for headers in credentials:
            answer = await within(door.client.get(path, headers=headers))
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert set(answer.headers) == {"date", "www-authenticate", "content-length", "content-type"}
            answers.add(answer.text)
    (text,) = answers
    assert "Authorization: Bearer" in text
    assert "query string" in text


async def test_a_query_string_is_not_looked_at(door: Door, store: TokenStore) -> None:
    made = store.create(ALL_SCOPES)
    for name in ("access_token", "token", "authorization", "Authorization"):
        await refused(
            door.client.get("/v1/runtimes", params={name: made.text}), 401, "UNAUTHENTICATED", "NO_TOKEN"
        )


async def test_two_headers_are_none(door: Door, store: TokenStore) -> None:
    made = store.create(ALL_SCOPES)
    line = f"Authorization: Bearer {made.text}\r\n"
    answer = await raw(
        door.service,
        f"GET /v1/runtimes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{line}{line}\r\n".encode(),
    )
    assert answer.startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_schemes_case_means_nothing(door: Door, store: TokenStore, scheme: str) -> None:
    made = store.create(ALL_SCOPES)
    await ok(door.client.get("/v1/runtimes", headers={"authorization": f"{scheme}   {made.text}"}))


@pytest.mark.parametrize(
    "value",
    [
        b"Bearer " + b"a" * 60_000,
        b"Bearer \xff\xfe\x80",
        b"\xe4\xf6 \xfc",
        b"Bearer cellhouse_" + b"\xc3\xa9" * 70,
    ],
    ids=["huge", "bytes", "no scheme", "no ASCII"],
)
async def test_a_hostile_header_is_no_token(door: Door, value: bytes) -> None:
    request = (
        b"GET /v1/runtimes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: %b\r\n\r\n"
        % value
    )
    assert (await raw(door.service, request)).startswith(b"HTTP/1.1 401 ")


async def test_each_call_takes_its_scope_and_names_it_whatever_exists(door: Door, store: TokenStore) -> None:
    """Every call there is, by the service's own document: reading takes read, all else execute, metrics admin."""
    everything = store.create(ALL_SCOPES)
    await ok(door.client.post("/v1/runtimes", json={"runtimeId": "here"}, headers=bearer(everything)))
    lacking = {scope: store.create(set(Scope) - {scope}) for scope in Scope}
    document = await ok(door.client.get("/openapi.json"))
    seen = set()
    for path, calls in document["paths"].items():
        for method in set(calls) & {"get", "put", "post", "delete"}:
            if path in ("/healthz", "/readyz"):
                continue
            needed = Scope.READ if method == "get" else Scope.EXECUTE
            if path == "/metrics":
                needed = Scope.ADMIN
            told = set()
            for runtime in ("here", "none"):
                filled = path.format(
                    runtime=runtime,
                    session="main",
                    execution="e",
                    path="a.txt",
                    index="0",
                    artifact="a",
                    name="a",
                )
                error = await refused(
                    door.client.request(
                        method, filled, params={"mimeType": "text/html"}, headers=bearer(lacking[needed])
                    ),
                    403,
                    "PERMISSION_DENIED",
                    "SCOPE_MISSING",
                )
                assert error["details"][0]["metadata"] == {"scope": needed.value}, filled
                told.add(json.dumps(error))
            assert len(told) == 1
            seen.add(needed)
    assert seen == set(Scope)


async def test_what_is_public_takes_no_token(door: Door) -> None:
    for path in ("/healthz", "/readyz", "/openapi.json", "/docs"):
        assert (await within(door.client.get(path))).status_code == 200


async def test_metrics_of_all_are_the_operators(door: Door, store: TokenStore) -> None:
    operator, other, busy = (store.create(ALL_SCOPES, tenant=tenant) for tenant in ("local", "other", "busy"))
    await ok(door.client.post("/v1/runtimes", headers=bearer(busy)))
    whole = (await within(door.client.get("/metrics", headers=bearer(operator)))).text
    assert "cellhouse_runtimes 1.0" in whole
    assert "cellhouse_http_requests_total{" in whole
    own = (await within(door.client.get("/metrics", headers=bearer(other)))).text
    assert "cellhouse_runtimes 0.0" in own
    assert "http_requests_total" not in own
    assert "start_seconds" not in own


async def test_tokens_that_cannot_be_trusted_let_nobody_in_and_the_log_says_why(
    door: Door, store: TokenStore, caplog: pytest.LogCaptureFixture
) -> None:
    made = store.create(ALL_SCOPES)
    await ok(door.client.get("/v1/runtimes", headers=bearer(made)))
    store.place.tokens.chmod(0o666)
    caplog.set_level(logging.ERROR, "cellhouse")
    answers = set()
    for headers in (bearer(made), bearer(mint_token()[1]), {}):
        answer = await within(door.client.get("/v1/runtimes", headers=headers))
        assert answer.status_code == 503
        assert answer.headers["retry-after"]
        answers.add(answer.text)
    (answer_text,) = answers
    assert str(store.place.directory) not in answer_text
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "mode 0666" in caplog.text
    store.place.tokens.chmod(0o600)
    await ok(door.client.get("/v1/runtimes", headers=bearer(made)))


def test_a_directory_that_cannot_be_looked_into_is_told_of_once_each_time(
    store: TokenStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = store.create(ALL_SCOPES)
    authenticator = BearerAuthenticator(TokenBook(store.place, Clock()))
    caplog.set_level(logging.ERROR, "cellhouse")

    def refuse(path: object) -> os.stat_result:
        raise PermissionError(13, "Permission denied", str(path))

    for times in (1, 2):
        with monkeypatch.context() as patch:
            patch.setattr(os, "lstat", refuse)
            for _ in range(3):
                with pytest.raises(Unavailable) as caught:
                    authenticator.authenticate(f"Bearer {made.text}")
                assert caught.value.reason == "TOKENS_UNREADABLE"
        assert len(caplog.records) == times
        assert authenticator.authenticate(f"Bearer {made.text}").principal == made.token.id


async def test_no_log_line_and_no_answer_has_a_token(
    door: Door, store: TokenStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    made, unknown = store.create(ALL_SCOPES), mint_token()[1]
    texts = []
    for token in (made.text, unknown, made.text[:-1]):
        for path in ("/v1/runtimes", "/v1/runtimes/x", "/v1/nothing", "/metrics"):
            answer = await within(door.client.get(path, headers=bearer(token)))
            texts += [answer.text, str(answer.headers)]
    for secret in (made.text, unknown, made.token.sha256):
        assert secret not in caplog.text
        assert all(secret not in text for text in texts)
        assert all(
            secret.encode() not in path.read_bytes()
            for path in _files(store.place.directory.parent)
            if path != store.place.tokens
        )


def _files(directory: Path) -> list[Path]:
    return [Path(root, name) for root, _, names in os.walk(directory) for name in names]


async def test_a_page_that_may_ask_first_needs_no_token_to_ask(
    fakes: FakeWorld, store: TokenStore, tmp_path: Path
) -> None:
    options = ServeOptions(cors_origins=("https://app.example",))
    authenticator = BearerAuthenticator(TokenBook(store.place, Clock()))
    async with opened(fakes, tmp_path / "state", authenticator=authenticator, options=options) as door:
        headers = {"origin": "https://app.example", "access-control-request-headers": "authorization"}
        asked = await within(door.client.options("/v1/runtimes", headers=headers))
        assert asked.status_code == 204
        assert "authorization" in asked.headers["access-control-allow-headers"].lower()
        told = await within(door.client.get("/v1/runtimes", headers=headers))
        assert told.status_code == 401
        assert told.headers["access-control-allow-origin"] == "https://app.example"
        assert "access-control-allow-credentials" not in told.headers


def test_an_authenticator_answers_by_errors_of_the_contract(store: TokenStore) -> None:
    authenticator = BearerAuthenticator(TokenBook(store.place, Clock()))
    with pytest.raises(Unauthenticated):
        authenticator.authenticate(None)
    made = store.create({Scope.READ}, tenant="acme")
    caller = authenticator.authenticate(f"Bearer {made.text}")
    assert (caller.tenant, caller.principal) == ("acme", made.token.id)
    assert caller.scopes == frozenset({Scope.READ})
    store.place.directory.chmod(0o755)
    with pytest.raises(Unavailable):
        authenticator.authenticate(f"Bearer {made.text}")
