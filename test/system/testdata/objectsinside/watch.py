# Holds /data/open open and watches /data by inotify while another version is written.
import ctypes
import os
import select
import time

libc = ctypes.CDLL(None)
watch = libc.inotify_init1(os.O_NONBLOCK)
assert libc.inotify_add_watch(watch, b"/data", 0x3C6) >= 0  # changed, moved, made or removed
f = open("/data/open", "rb", buffering=0)
assert f.read(4) == b"old\n"
open("/tmp/watching", "w").close()
deadline = time.monotonic() + 60
while not os.path.exists("/tmp/overwritten"):
    assert time.monotonic() < deadline, "nobody wrote another version"
    select.select([], [], [], 0.1)
rest = b""
while True:
    b = f.read(1 << 20)
    if not b:
        break
    rest += b
whole = rest == b"old\n" * (len(rest) // 4) and len(rest) == (4 << 20) - 4
events = bool(select.select([watch], [], [], 0)[0])
print("old whole" if whole else f"{len(rest)} bytes of others", "an event" if events else "no event", sep=", ")
