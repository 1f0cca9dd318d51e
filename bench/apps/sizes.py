"""/100k, /1m and /10m as in sizes.psgi; anything else is hello. `application` may block, `rsgi` may not."""

BODIES = {"/100k": b"x" * 102_400, "/1m": b"x" * 1_048_576, "/10m": b"x" * 10_485_760}


def application(environ, start_response):
    body = BODIES.get(environ["PATH_INFO"], b"Hello World")
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


async def rsgi(scope, protocol):
    body = BODIES.get(scope.path, b"Hello World")
    protocol.response_bytes(200, [("content-type", "text/plain"), ("content-length", str(len(body)))], body)
