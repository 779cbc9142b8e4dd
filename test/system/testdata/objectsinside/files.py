# Says what a program finds out about the files of a mount of objects: a line for each fact that
# does not hold, and "done".
import errno
import fcntl
import mmap
import os
import subprocess
import sys

path, at = sys.argv[1], int(sys.argv[2])  # a file, and when its version was written
top = os.path.dirname(path)


def fails(what, want, call, *args, **more):
    try:
        call(*args, **more)
        print(what, "works")
    except OSError as e:
        if e.errno != want:
            print(what, "fails:", e.strerror)


def holds(what, fact):
    if not fact:
        print("it does not hold that", what)


s = os.stat(path)
with open(path, "rb") as f:
    data = f.read()
later = os.stat(path)
holds("all three times are when the version was written", s.st_mtime_ns == s.st_atime_ns == s.st_ctime_ns == at * 10**9)
holds("reading changes no time", (s.st_atime_ns, s.st_mtime_ns) == (later.st_atime_ns, later.st_mtime_ns))
holds("a file belongs to root and everybody reads it", (s.st_uid, s.st_gid, s.st_mode & 0o7777, s.st_nlink) == (0, 0, 0o444, 1))
d = os.stat(top)
holds("a directory belongs to root and everybody opens it", (d.st_uid, d.st_gid, d.st_mode & 0o7777, d.st_nlink) == (0, 0, 0o555, 1))
holds("all directories have one time", {os.stat(p).st_mtime for p, _, _ in os.walk("/data")} == {d.st_mtime})
v = os.statvfs(top)
holds("the file system has no size", (v.f_blocks, v.f_bavail, v.f_files) == (0, 0, 0))
holds("there are no attributes of users", os.listxattr(path) == [])
fails("setting an attribute", errno.EROFS, os.setxattr, path, "user.x", b"1")
fails("reading an attribute", errno.ENODATA, os.getxattr, path, "user.x")
fails("making a device", errno.EROFS, os.mknod, top + "/dev", 0o600 | 0o020000, os.makedev(1, 3))
fails("running a file", errno.EACCES, subprocess.run, [path])
holds("another user reads it", subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", "cat", path], capture_output=True).stdout == data)
f = os.open(path, os.O_RDONLY)
m = mmap.mmap(f, 0, mmap.MAP_SHARED, mmap.PROT_READ)
holds("a mapping has the bytes", m[:] == data)
fails("a shared mapping to write", errno.EACCES, mmap.mmap, f, 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
fcntl.flock(f, fcntl.LOCK_EX)
other = os.open(path, os.O_RDONLY)
fails("a second lock", errno.EWOULDBLOCK, fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("done")
