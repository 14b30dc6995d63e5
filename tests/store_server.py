"""An S3-compatible server on this machine, and what the environment says of it; imported by fixtures and scripts."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import Request, urlopen

BUCKET = "cpmi-tests"
ACCESS_KEY, SECRET_KEY = "AKIATESTSTESTSTESTS0", "a-very/secret+key-of-these-tests-0123456"


@contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """A server with an empty bucket: the variables by which clients reach it."""
    import logging

    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        address = f"http://{host}:{port}"
        signature = f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/20260101/us-east-1/s3/aws4_request"
        with urlopen(Request(f"{address}/{BUCKET}", method="PUT", headers={"Authorization": signature})):
            pass
        yield {
            "AWS_ENDPOINT_URL": address,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        }
    finally:
        server.stop()


def other_variables() -> list[str]:
    """Variables of this machine that would lead a client elsewhere."""
    return [name for name in os.environ if re.match("(AWS|GOOGLE|AZURE)_", name)]
