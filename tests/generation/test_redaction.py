"""What a server says about a request names neither its key nor its headers."""

import base64
import json
from urllib.parse import quote

import pytest
from completions_server import Answer, serve
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.errors import ModelError
from cpmi_dagster.generation.completion_replies import LONGEST_MESSAGE, SHORTEST_PIECE, without_key
from cpmi_dagster.generation.completions_client import Endpoint

pytestmark = pytest.mark.slow

KEY = 'sk-Very/"secret\\+key 42'
SAID = {
    "the key": f"Incorrect API key provided: {KEY}",
    "in capitals": f"Incorrect API key provided: {KEY.upper()}",
    "in part": f"Incorrect API key provided: {KEY[:9]}****",
    "in a URL": f"no such key: {quote(KEY, safe='')}",
    "as JSON": json.dumps({"received": KEY}),
    "as base64": "Basic " + base64.b64encode(f":{KEY}".encode()).decode(),
    "with its headers": json.dumps({"headers": {"Authorization": f"Bearer {KEY}", "Cookie": "session=abcdef123456"}}),
    "of another": "Authorization: Bearer another-token-of-the-proxy",
    "where the message is cut": "x" * (LONGEST_MESSAGE - 15) + KEY,
    "over two lines": f"bad\n{KEY}",
    "beside escapes": f"\x1b]52;c;{KEY}\x07",
}
SECRETS = (KEY, "another-token", "abcdef123456", "QmVhcmVy", "session=")


def shows(message: str) -> bool:
    """Whether a message holds a secret, or enough of the key in one piece."""
    pieces = {KEY[start : start + SHORTEST_PIECE] for start in range(len(KEY) - SHORTEST_PIECE + 1)}
    return any(secret.lower() in message.lower() for secret in (*SECRETS, *pieces))


@pytest.mark.parametrize("kind", SAID)
@pytest.mark.parametrize("status", [401, 500, 200])
def test_no_error_of_an_endpoint_shows_a_key_or_a_header(kind, status):
    for body in ({"error": {"message": SAID[kind]}}, SAID[kind].encode(), {"choices": [], "detail": SAID[kind]}):
        with serve(lambda _, body=body: Answer(body, status)) as server, pytest.raises(ModelError) as caught:
            endpoint = Endpoint(server.url, "tiny", KEY, max_retries=0)
            endpoint.complete([{"prompt": "a", "n": 1}])
        assert not shows(str(caught.value)), str(caught.value)
        assert "\x1b" not in str(caught.value)
        assert caught.value.__suppress_context__


@given(st.text(min_size=6, max_size=40), st.text(max_size=30), st.text(max_size=30))
def test_a_key_is_hidden_wherever_it_stands(key, before, after):
    assert key not in without_key(before + key + after, key)


def test_a_message_without_secrets_stays_as_it_is():
    said = "status 400: This model's maximum context length is 4096 tokens. However, you requested 5000"
    assert without_key(said, KEY) == without_key(said, None) == said
