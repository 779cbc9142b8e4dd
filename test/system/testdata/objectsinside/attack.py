# Attacks of root in a guest on https://s3.warren.internal. The VM may use the bucket data,
# and not the bucket theirs. The argument is the id of the VM that may use theirs.
import resource
import socket
import sys
import time

other = sys.argv[1]
HOST = "s3.warren.internal"
failed = 0


def talk(data, timeout=10):
    """Sends bytes on a connection of its own and returns everything that comes back."""
    s = socket.create_connection((HOST, 80), timeout)
    got = b""
    try:
        s.sendall(data)
        while True:
            b = s.recv(65536)
            if not b:
                break
            got += b
    except OSError:
        pass
    s.close()
    return got


def request(path, *headers, method="GET", body=b"", host=HOST):
    head = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", f"Content-Length: {len(body)}"]
    return "\r\n".join(head + list(headers)).encode("latin-1") + b"\r\n\r\n" + body


def never(what, data):
    """The other VM's object does not come back."""
    global failed
    got = talk(data)
    if b"hello from theirs" in got:
        failed += 1
        print("FAILED:", what, got[:300])


signed = f"Authorization: AWS4-HMAC-SHA256 Credential={other}/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=" + "0" * 64
T = "/theirs/in/hello.txt"
assert b"hello from data" in talk(request("/data/in/hello.txt")), "its own object is not read"
never("plain", request(T))
never("the other's id as access key", request(T, signed))
for name in ("Warren-Inside-Vm", "warren-inside-vm", "WARREN-INSIDE-VM", "Warren_Inside_Vm", "Warren-Inside-VM ", " Warren-Inside-VM", "Warren-Inside-Vm\t"):
    never("header " + repr(name), request(T, name + ": " + other, signed))
    never("folded " + repr(name), request(T, "X: a\r\n " + name + ": " + other, signed))
for name in ("Connection: close, Warren-Inside-Vm", "Connection: Authorization", "X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1", "X-Original-Url: " + T, "X-Rewrite-Url: " + T, "X-Http-Method-Override: PUT"):
    never(name, request(T, name, signed))
    never(name + ", at its own", request("/data/in/hello.txt", name, signed))
for host in ("theirs.s3.warren.internal", "git.warren.internal", "inside", "127.0.0.1", "127.0.0.1:8788", HOST + ":8788", HOST + ".", "S3.WARREN.INTERNAL", "", "x\r\nHost: " + HOST, HOST + "/theirs"):
    never("host " + repr(host), request("/in/hello.txt", host=host))
    never("host " + repr(host), request(T, signed, host=host))
for path in ("/data/../theirs/in/hello.txt", "/data/%2e%2e/theirs/in/hello.txt", "/data/..%2ftheirs/in/hello.txt", "/data%2f..%2ftheirs/in/hello.txt", "//theirs/in/hello.txt", "/./theirs/in/hello.txt",
             "http://127.0.0.1:8788/theirs/in/hello.txt", "http://theirs/in/hello.txt", "*", "/data/in/hello.txt?versionId=../../theirs", "/data/\x00", "/theirs%00/in/hello.txt", "/data/%c0%ae%c0%ae/theirs/in/hello.txt"):
    never("path " + repr(path), request(path, signed))
never("a copy", request("/data/copy", "X-Amz-Copy-Source: " + T, method="PUT"))
never("what was copied", request("/data/copy"))
never("CONNECT", request("127.0.0.1:8788", method="CONNECT"))
hidden = request("/theirs/smuggled", "Warren-Inside-Vm: " + other, signed, "X-Amz-Content-Sha256: UNSIGNED-PAYLOAD", method="PUT", body=b"x")
for kind in ("UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"):
    about = ["Host: " + HOST, "X-Amz-Content-Sha256: " + kind, "X-Amz-Decoded-Content-Length: 0"]
    for lengths in (["Content-Length: 0"], ["Content-Length: 5", "Transfer-Encoding: chunked"], ["Transfer-Encoding: chunked"], ["Transfer-Encoding: xchunked", "Content-Length: 5"], ["Content-Length: 5", "Content-Length: 6"], ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"]):
        never("hidden", ("\r\n".join(["PUT /data/x HTTP/1.1"] + about + lengths) + "\r\n\r\n").encode() + b"0\r\n\r\n" + hidden)
        chunk = b"0\r\n\r\n" + hidden
        never("hidden in a chunk", ("\r\n".join(["PUT /data/x HTTP/1.1"] + about + lengths) + "\r\n\r\n").encode() + b"%x\r\n" % len(chunk) + chunk + b"\r\n0\r\n\r\n")
for n in (9 << 10, 70 << 10, 1 << 20):
    got = talk(request("/data/in/hello.txt", "X-Amz-Meta-Big: " + "x" * n))
    if b"200 OK" in got[:20]:
        failed += 1
        print("FAILED: a header of", n, "bytes is accepted")
talk(b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20000 + b"\r\n")
talk(b"\x16\x03\x01" + b"\x00" * 4096)

resource.setrlimit(resource.RLIMIT_NOFILE, (12000, 12000))
held = []
refused = 0
for n in range(10000):
    s = socket.socket()
    s.setblocking(False)
    try:
        s.connect(("10.0.2.4", 80 if n % 2 else 443))
    except BlockingIOError:
        pass
    except OSError:
        refused += 1
    held.append(s)
for s in held:
    try:
        s.send(b"GET /data/in/hello.txt HTTP/1.1\r\nHost: " + HOST.encode() + b"\r\n")
    except OSError:
        refused += 1
print("of 10,000 connections", refused, "were not taken")
for s in held:
    s.close()
deadline = time.monotonic() + 60
while time.monotonic() < deadline:
    try:
        if b"hello from data" in talk(request("/data/in/hello.txt"), 5):
            break
    except OSError:  # the connections are being closed
        time.sleep(0.2)
else:
    failed += 1
    print("FAILED: after the connections its own object is not read")
sys.exit("failed") if failed else print("done")
