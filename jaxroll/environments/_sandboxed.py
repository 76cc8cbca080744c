"""What may a policy's program do? (Run by its path, in a fresh interpreter.)

The first lines of the sandboxed process: it limits itself, then runs the
program it reads from a descriptor. What is forbidden is forbidden by the
kernel, for good and for everything the process does, compiled code included:

  capabilities  dropped, no new ones: root is no more than anybody
  Landlock      reads the standard library, /usr/lib and /dev/null only
  seccomp       no network, no new process or thread, no other program, no
                signals, no change to any file, no reach into other processes
  rlimits       CPU seconds, address space, file size, open files, processes

Where the kernel has no Landlock other files can be read; the rest holds.
"""

import ctypes
import json
import os
import platform
import resource
import struct
import sys
import types

EXIT_UNSUPPORTED = 97

_DENY = {  # system call: number on x86_64, on aarch64; -1 where there is none
  "network": [(41, 198)],  # socket
  "io_uring": [(425, 425), (426, 426), (427, 427)],
  # fork, vfork, clone, execve, execveat; clone3 below.
  "processes": [(57, -1), (58, -1), (56, 220), (59, 221), (322, 281)],
  # kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo,
  # pidfd_send_signal, pidfd_open, pidfd_getfd, ptrace, process_vm_readv,
  # process_vm_writev, process_madvise, kcmp, setsid, setpgid.
  "others": [
    *[(62, 129), (200, 130), (234, 131), (129, 138), (297, 240)],
    *[(424, 424), (434, 434), (438, 438), (101, 117), (310, 270)],
    *[(311, 271), (440, 440), (312, 272), (112, 157), (109, 154)],
  ],
  # prlimit64, setrlimit, setpriority, ioprio_set, sched_setparam,
  # sched_setscheduler, sched_setaffinity, sched_setattr.
  "limits": [
    *[(302, 261), (160, 164), (141, 140), (251, 30), (142, 118)],
    *[(144, 119), (203, 122), (314, 274)],
  ],
  # shmget, semget, msgget, mq_open, memfd_create, add_key, request_key,
  # keyctl, memfd_secret.
  "memory": [
    *[(29, 194), (64, 190), (68, 186), (240, 180), (319, 279)],
    *[(248, 217), (249, 218), (250, 219), (447, 447)],
  ],
  # mount, umount2, setns, unshare, chroot, pivot_root, open_tree,
  # move_mount, fsopen, mount_setattr, bpf, perf_event_open, userfaultfd.
  "kernel": [
    *[(165, 40), (166, 39), (308, 268), (272, 97), (161, 51), (155, 41)],
    *[(428, 428), (429, 429), (430, 430), (442, 442), (321, 280)],
    *[(298, 241), (323, 282)],
  ],
  # creat, unlink, unlinkat, rename, renameat, renameat2, mkdir, mkdirat,
  # rmdir, link, linkat, symlink, symlinkat, mknod, mknodat, truncate,
  # chmod, fchmod, fchmodat, chown, fchown, lchown, fchownat,
  # utime, utimes, futimesat, utimensat, (l, f)setxattr, (l, f)removexattr,
  # open_by_handle_at.
  "files": [
    *[(85, -1), (87, -1), (263, 35), (82, -1), (264, 38), (316, 276)],
    *[(83, -1), (258, 34), (84, -1), (86, -1), (265, 37), (88, -1)],
    *[(266, 36), (133, -1), (259, 33), (76, 45), (90, -1), (91, 52)],
    *[(268, 53), (92, -1), (93, 55), (94, -1), (260, 54)],
    *[(132, -1), (235, -1), (261, -1), (280, 88), (188, 5), (189, 6)],
    *[(190, 7), (197, 14), (198, 15), (199, 16), (304, 265)],
  ],
}
# Unknown to the process, so that libraries fall back: clone3, openat2.
_ABSENT = [(435, 435), (437, 437)]
# Calls that came later may do what an older one is denied: absent as well.
_NEWEST = 450
# (call, argument, bits or value, whether bits): open and openat for writing
# (O_WRONLY, O_RDWR, O_CREAT, O_TRUNC); fcntl's F_SETOWN, F_SETSIG, F_SETOWN_EX
# and ioctl's FIOSETOWN, SIOCSPGRP, which send signals; ioctl's TIOCSTI.
_BY_ARGUMENT = [
  ((2, -1), 1, 0x243, True),
  ((257, 56), 2, 0x243, True),
  *[((72, 25), 1, command, False) for command in (8, 10, 15)],
  *[((16, 29), 1, command, False) for command in (0x8901, 0x8902, 0x5412)],
]
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_EPERM, _ENOSYS = 1, 38
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _EQUAL, _ANY, _ATLEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_NO_NEW_PRIVS, _SECCOMP, _DEATH_SIGNAL = 38, 22, 1  # prctl


class _Unsupported(Exception):
  pass


def machine():
  """(column of the tables, audit architecture), or None where unsupported."""
  if sys.platform != "linux" or sys.byteorder != "little":
    return None
  return _MACHINES.get(platform.machine())


def program(column: int, architecture: int) -> bytes:
  """The seccomp filter, as instructions of classic BPF."""
  lines = []

  def line(code, k, yes=0, no=0):
    lines.append(struct.pack("<HBBI", code, yes, no, k))

  line(_LOAD, 4)  # architecture
  line(_EQUAL, architecture, yes=1)
  line(_RETURN, _KILL)
  line(_LOAD, 0)  # number of the call
  line(_ATLEAST, 0x40000000, no=1)  # another calling convention
  line(_RETURN, _KILL)
  line(_ATLEAST, _NEWEST + 1, no=1)
  line(_RETURN, _ERRNO | _ENOSYS)
  denied = [(call, _EPERM) for calls in _DENY.values() for call in calls]
  denied += [(call, _ENOSYS) for call in _ABSENT]
  for call, error in denied:
    if call[column] >= 0:
      line(_EQUAL, call[column], no=1)
      line(_RETURN, _ERRNO | error)
  for call, argument, value, bits in _BY_ARGUMENT:
    if call[column] >= 0:
      line(_EQUAL, call[column], no=4)
      line(_LOAD, 16 + 8 * argument)
      line(_ANY if bits else _EQUAL, value, no=1)
      line(_RETURN, _ERRNO | _EPERM)
      line(_LOAD, 0)
  line(_RETURN, _ALLOW)
  return b"".join(lines)


def _filter(libc, column, architecture):
  """No return: what the filter denies stays denied."""
  code = program(column, architecture)
  text = ctypes.create_string_buffer(code, len(code))
  # struct sock_fprog: u16, padding, pointer.
  fprog = struct.pack("<HxxxxxxQ", len(code) // 8, ctypes.addressof(text))
  kept = ctypes.create_string_buffer(fprog, len(fprog))
  if libc.prctl(_SECCOMP, 2, kept, 0, 0):
    raise _Unsupported("seccomp")


def _drop_capabilities(libc):
  header = ctypes.create_string_buffer(struct.pack("<II", 0x20080522, 0), 8)
  none = ctypes.create_string_buffer(bytes(24), 24)
  if libc.capset(header, none):
    raise _Unsupported("capset")


def _hide_files(libc):
  """Landlock: readable are the libraries, nothing else. True if it holds."""
  version = libc.syscall(444, None, 0, 1)
  if version < 1:
    return False
  rights = (1 << (13 + (version >= 2) + (version >= 3))) - 1
  kept = ctypes.create_string_buffer(struct.pack("<Q", rights), 8)
  ruleset = libc.syscall(444, kept, 8, 0)
  if ruleset < 0:
    return False
  readable = [
    os.path.dirname(os.__file__),
    os.path.join(sys.base_prefix, "lib"),
  ]
  readable += [
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/share/zoneinfo",
  ]
  readable += ["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"]
  readable += ["/etc/ld.so.cache", "/etc/localtime", os.getcwd()]
  for path in readable:
    if not os.path.exists(path):
      continue
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    # Read files, and directories; no writing, no executing.
    right = 0b1100 if os.path.isdir(path) else 0b0100
    rule = ctypes.create_string_buffer(struct.pack("<Qi", right, fd), 12)
    if libc.syscall(445, ruleset, 1, rule, 0):
      raise _Unsupported("landlock_add_rule")
    os.close(fd)
  if libc.syscall(446, ruleset, 0):
    raise _Unsupported("landlock_restrict_self")
  os.close(ruleset)
  return True


def confine(limits: dict) -> bool:
  """Gives up what the program must not have.

  Args:
    limits: name of an RLIMIT -> its value.

  Returns:
    Whether files are hidden too.
  """
  found = machine()
  if found is None:
    raise _Unsupported(f"{sys.platform}, {platform.machine()}")
  libc = ctypes.CDLL(None, use_errno=True)
  libc.prctl(_DEATH_SIGNAL, 9, 0, 0, 0)
  if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0):
    raise _Unsupported("no_new_privs")
  hidden = _hide_files(libc)
  _drop_capabilities(libc)
  for name, value in limits.items():
    resource.setrlimit(getattr(resource, name), (value, value))
  _filter(libc, *found)
  return hidden


def main() -> None:
  """Confines itself, runs the program and then its tests.

  The token that says that all tests passed is read after the program has run.
  """
  plan, tests, result = map(int, sys.argv[1:4])
  with open(plan, encoding="utf-8") as stream:
    limits, source = json.load(stream)
  try:
    hidden = confine(limits)
  except (_Unsupported, OSError, ValueError) as error:
    os.write(result, f"unsupported: {error}".encode())
    os._exit(EXIT_UNSUPPORTED)
  os.write(result, b"hidden\n" if hidden else b"readable\n")
  sys.argv[:] = ["program.py"]
  # The program is the main module: dataclasses, for one, look there.
  module = sys.modules["__main__"] = types.ModuleType("__main__")
  names = vars(module)
  leave = None
  try:
    exec(compile(source, "program.py", "exec"), names)
  except SystemExit as error:
    leave = error
  with open(tests, encoding="utf-8") as stream:
    token, lines = json.load(stream)
  if leave is not None and not lines:
    raise leave
  for line in lines:
    exec(compile(line, "test.py", "exec"), names)
  sys.stdout.flush()
  os.write(result, token.encode())


if __name__ == "__main__":
  main()
