"""What of the host, its users and its other processes a program can reach, as data; see probes.py."""

from typing import Final

from tests.attacks.probes import ROOT, Probe

HOST_PROBES: Final = (
    Probe(
        "memory-of-others",
        """
needle = ARGS['needle'].encode()
for name in filter(str.isdigit, os.listdir('/proc')):
    if int(name) == os.getpid():
        continue
    try:
        with open('/proc/%s/maps' % name) as maps, open('/proc/%s/mem' % name, 'rb') as memory:
            for line in maps:
                if '[stack]' in line:
                    start, end = (int(word, 16) for word in line.split()[0].split('-'))
                    memory.seek(start)
                    if needle in memory.read(end - start):
                        return
    except OSError:
        continue
missed('in no memory')
""",
        ("missed: in no memory",),
        quick=True,
        layers=("pid",),
    ),
    Probe(
        # What such a program gives is seen by whom it runs as, before it has asked for a password.
        "set-id-program",
        """
import subprocess, time
given = dict(user=65533, group=65533, extra_groups=[]) if os.geteuid() == 0 else {}
with subprocess.Popen(['/bin/su'], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd='/', **given) as child:
    until = time.monotonic() + 10
    uids = []
    while time.monotonic() < until and child.poll() is None:
        status = dict(line.split(':\\t', 1) for line in open('/proc/%d/status' % child.pid).read().splitlines())
        if status['Name'] == 'su':
            uids = status['Uid'].split()
            break
    child.kill()
if len(uids) < 2 or uids[1] == uids[0]:
    missed('it runs as who started it')
""",
        ("missed: it runs as who started it", "ENOENT"),
        needs="/bin/su",
        layers=("user",),
    ),
    Probe(
        "settings-of-the-kernel",
        """
for place, _, names in os.walk('/proc/sys'):
    for name in names:
        try:
            os.close(os.open(os.path.join(place, name), os.O_WRONLY))
        except OSError:
            continue
        return
missed('none can be written')
""",
        ("missed: none can be written",),
        ROOT,
        quick=True,
        layers=("mount",),
    ),
    Probe(
        # Writing here would take a limit away, or move to a group without one.
        "groups-of-the-host",
        """
for place in ('/sys/fs/cgroup', '/sys/fs/cgroup/memory', '/sys/fs/cgroup/pids'):
    try:
        return os.close(os.open(place + '/cgroup.procs', os.O_WRONLY))
    except OSError as error:
        found = error
raise found
""",
        ("ENOENT",),
        ROOT,
        needs="/sys/fs/cgroup",
        layers=("mount",),
    ),
    Probe(
        "user-map",
        """
if not ARGS['walled']:
    call('unshare', 0x10000000)
open('/proc/self/setgroups', 'w').write('deny')
os.write(os.open('/proc/self/uid_map', os.O_WRONLY), b'0 %d 1' % (1000 if ARGS['walled'] else ARGS['uid']))
""",
        ("EPERM", "EACCES"),
        layers=("user",),
    ),
    Probe(
        "userfaultfd-device",
        "os.close(os.open('/dev/userfaultfd', os.O_RDWR))",
        ("ENOENT",),
        ROOT,
        needs="/dev/userfaultfd",
        layers=("mount",),
    ),
    Probe(
        "fuse",
        "os.close(os.open('/dev/fuse', os.O_RDWR))",
        ("ENOENT",),
        ROOT,
        needs="/dev/fuse",
        layers=("mount",),
    ),
    Probe(
        "vsock-device",
        "os.close(os.open('/dev/vsock', os.O_RDWR))",
        ("ENOENT",),
        ROOT,
        needs="/dev/vsock",
        layers=("mount",),
    ),
    Probe(
        "host-loopback-6",
        "socket.create_connection(('::1', ARGS['tcp_6']), 5).close()",
        ("ECONNREFUSED", "EADDRNOTAVAIL", "ENETUNREACH"),
        needs="tcp_6",
        layers=("network",),
    ),
    Probe(
        "host-abstract-datagrams",
        "with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s: s.sendto(b'x', '\\0' + ARGS['abstract'] + '-d')",
        ("ECONNREFUSED",),
        layers=("network",),
    ),
    Probe(
        "host-shared-memory",
        "import mmap\nos.close(os.open('/dev/shm/' + ARGS['shm'], os.O_RDWR))",
        ("ENOENT",),
        layers=("mount",),
    ),
    Probe(
        "host-queues-and-segments",
        "missed('no segment') if LIBC.shmget(ARGS['segment'], 0, 0) < 0 else None",
        ("missed: no segment",),
        layers=("ipc",),
    ),
)
