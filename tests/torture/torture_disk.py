"""A small disk: a tmpfs in a mount namespace of its own, or, where the system refuses that, a limit on file sizes."""

import ctypes
import os
import resource
from pathlib import Path

_CLONE_NEWNS, _CLONE_NEWUSER, _MS_REC_PRIVATE = 0x20000, 0x10000000, 0x44000


class TmpfsDisk:
    """A tmpfs of some size, seen by this process and its children only; gone when they end."""

    def __init__(self, path, size):
        """Mount it; raises `OSError` if the system refuses."""
        user, group = os.getuid(), os.getgid()
        try:
            _call("unshare", _CLONE_NEWNS)
        except OSError:
            _call("unshare", _CLONE_NEWNS | _CLONE_NEWUSER)
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"0 {user} 1")
            Path("/proc/self/gid_map").write_text(f"0 {group} 1")
        _call("mount", b"none", b"/", None, _MS_REC_PRIVATE, None)
        path.mkdir(exist_ok=True)
        _call("mount", b"tmpfs", os.fsencode(path), b"tmpfs", 0, f"size={size}".encode())
        self.ballast = path / "ballast"

    def fill(self, room):
        """Leave only `room` bytes."""
        found = os.statvfs(self.ballast.parent)
        self.ballast.write_bytes(bytes(found.f_bavail * found.f_frsize - room))

    def make_room(self):
        self.ballast.unlink()


class FileSizeLimit:
    """No file of this process and its children may exceed a size."""

    def __init__(self, path, size):
        path.mkdir(exist_ok=True)
        self.path = path

    def fill(self, room):
        """Let no file grow by more than `room`, or beside a database by a part of it: its log grows as well."""
        largest = max((file.stat().st_size for file in self.path.iterdir()), default=0)
        limit = largest + room // 6 if largest else room
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    def make_room(self):
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def can_mount(folder):
    """Return whether a process may mount a tmpfs, by trying it in a child."""
    child = os.fork()
    if child == 0:
        try:
            TmpfsDisk(folder, 2**16)
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def _call(name, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
