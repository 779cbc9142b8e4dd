# Makes the container image python:3-slim from the VM's own Python, since the VM reaches no registry.
set -eu
cd /
tar -c --exclude='*/test' --exclude='*/unittest' --exclude='*/idlelib' --exclude='*/lib2to3' --exclude='*/pydoc_data' \
    --exclude='*/ensurepip' --exclude='*/distutils' --exclude='*/asyncio' --exclude='*/config-*' --exclude='*/multiprocessing' \
    bin lib lib64 sbin usr/bin/sh usr/bin/dash usr/bin/python3 usr/bin/python3.* usr/lib/python3.* usr/lib64 \
    $(ldd /usr/bin/python3 /usr/bin/dash /usr/lib/python3.*/lib-dynload/_sqlite3.*.so | sed -nE 's,^.*[[:space:]]/(lib|lib64|usr/lib)/([^ ]+) .*,usr/lib/\2,p' | sort -u) |
    docker import - python:3-slim
