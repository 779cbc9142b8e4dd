"""Writes the files of a container image as a tar: the VM's own Python, with what the stack needs,
and its shell. The VM reaches no registry, and a small image starts sooner in an emulated guest.
"""

import os
import subprocess
import sys
import tarfile

sys.modules["ssl"] = sys.modules["_hashlib"] = None  # their libraries are larger than the rest

import encodings.idna  # noqa: E402,F401
import http.server  # noqa: E402,F401
import json  # noqa: E402,F401
import signal  # noqa: E402,F401
import sqlite3  # noqa: E402,F401

files = ["/usr/bin/dash", os.path.realpath(sys.executable)]
for module in list(sys.modules.values()):
    for attribute in ("__file__", "__cached__"):
        files.append(getattr(module, attribute, None) or "")
paths = {f for f in files if os.path.isfile(f) and f.startswith("/usr/")}
for f in [f for f in paths if not f.endswith((".py", ".pyc"))]:
    for word in subprocess.run(["ldd", f], capture_output=True, text=True).stdout.split():
        if word.startswith("/"):
            paths.add(os.path.join(os.path.realpath(os.path.dirname(word)), os.path.basename(word)))

with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", dereference=True) as tar:
    links = {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64", "usr/bin/sh": "dash"}
    for name, to in links.items() | {("usr/bin/python3", os.path.basename(files[1]))}:
        link = tarfile.TarInfo(name)
        link.type, link.linkname = tarfile.SYMTYPE, to
        tar.addfile(link)
    for f in sorted(paths):
        tar.add(f)
