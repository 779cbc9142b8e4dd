#!/usr/bin/env python3
# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""Verify a receipt of Warren, as docs/receipts.md describes it, with nothing but Python.

usage: verify.py FILE [PUBLIC-KEY-IN-HEX]
"""
import hashlib
import json
import sys

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
I = pow(2, (P - 1) // 4, P)


def recover(y, sign):
    if y >= P:
        return None
    x2 = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(x2, (P + 3) // 8, P)
    if (x * x - x2) % P:
        x = x * I % P
    if (x * x - x2) % P or (x == 0 and sign):
        return None
    return P - x if x & 1 != sign else x


def point(raw):
    n = int.from_bytes(raw, "little")
    y = n & ((1 << 255) - 1)
    x = recover(y, n >> 255)
    return None if x is None else (x, y, 1, x * y % P)


def add(p, q):
    a = (p[1] - p[0]) * (q[1] - q[0]) % P
    b = (p[1] + p[0]) * (q[1] + q[0]) % P
    c = 2 * p[3] * q[3] * D % P
    d = 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def times(n, p):
    out = (0, 1, 1, 0)
    while n:
        if n & 1:
            out = add(out, p)
        p = add(p, p)
        n >>= 1
    return out


BASE_Y = 4 * pow(5, P - 2, P) % P
BASE_X = recover(BASE_Y, 0)
BASE = (BASE_X, BASE_Y, 1, BASE_X * BASE_Y % P)


def signed(key, message, signature):
    """Ed25519, RFC 8032, 5.1.7."""
    if len(key) != 32 or len(signature) != 64:
        return False
    a, r = point(key), point(signature[:32])
    s = int.from_bytes(signature[32:], "little")
    if a is None or r is None or s >= L:
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % L
    p, q = times(s, BASE), add(r, times(k, a))
    return (p[0] * q[2] - q[0] * p[2]) % P == 0 and (p[1] * q[2] - q[1] * p[2]) % P == 0


def once(pairs):
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a name occurs twice")
    return out


def canonical(v):
    """RFC 8785, for objects, arrays, strings, integers, booleans and null."""
    if isinstance(v, dict):
        names = sorted(v, key=lambda n: n.encode("utf-16-be"))
        return "{" + ",".join(canonical(n) + ":" + canonical(v[n]) for n in names) + "}"
    if isinstance(v, list):
        return "[" + ",".join(map(canonical, v)) + "]"
    if isinstance(v, float):
        raise ValueError("a number is no integer")
    return json.dumps(v, ensure_ascii=False)


def included(leaf, index, size, proof, root):
    """RFC 9162, 2.1.3.2."""
    if index >= size:
        return False
    at, last, h = index, size - 1, leaf
    for p in proof:
        if last == 0:
            return False
        if at & 1 or at == last:
            h = hashlib.sha256(b"\1" + p + h).digest()
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            h = hashlib.sha256(b"\1" + h + p).digest()
        at, last = at >> 1, last >> 1
    return last == 0 and h == root


def verify(data, trusted):
    r = json.loads(data, object_pairs_hook=once)
    if r["kind"] != "warren-receipt" or r["version"] != 1:
        raise ValueError("not a receipt of version 1")
    if trusted and r["key"] != trusted:
        raise ValueError("another key signed it")
    key = bytes.fromhex(r["key"])
    rest = {n: v for n, v in r.items() if n != "signature"}
    if not signed(key, b"warren receipt 1\n" + canonical(rest).encode(), bytes.fromhex(r["signature"])):
        raise ValueError("its signature is wrong")
    c = r["checkpoint"]
    text = "warren audit checkpoint 2\n%s\n%d\n%s\n%s\n%s\n%s\n" % (c["log"], c["seq"], c["root"], c["hash"], c["time"], c.get("next", ""))
    if c["v"] != 2 or c["key"] != r["key"] or not signed(key, text.encode(), bytes.fromhex(c["signature"])):
        raise ValueError("its checkpoint is not signed")
    before = 0
    for line in r["lines"]:
        record = json.loads(line["record"])
        leaf = hashlib.sha256(b"\0" + hashlib.sha256(line["record"].encode()).digest()).digest()
        proof = [bytes.fromhex(p) for p in line["proof"]]
        if record["seq"] != line["seq"] or line["seq"] <= before or record["vm"] != r["vm"]:
            raise ValueError("record %d is not in its place" % line["seq"])
        if not included(leaf, line["seq"] - 1, c["seq"], proof, bytes.fromhex(c["root"])):
            raise ValueError("record %d is not in the log" % line["seq"])
        before = line["seq"]
    return r


if __name__ == "__main__":
    try:
        with open(sys.argv[1], "rb") as f:
            r = verify(f.read(), sys.argv[2] if len(sys.argv) > 2 else "")
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        sys.exit("broken: %s" % e)
    print("%d records of %s, signed by %s" % (len(r["lines"]), r["vm"], r["key"]))
