"""One process of a peer in Python, spoken to as worker.mjs is: worker.py KIND."""
import fcntl, json, os, sys, time

wall = lambda: time.time() * 1000


class Fcntl:
    """The standard library's flock(2)."""

    def once(self, path):
        with open(path, "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def again(self, path):
        if not hasattr(self, "kept"):
            self.kept = open(path, "a")
        fcntl.flock(self.kept, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(self.kept, fcntl.LOCK_UN)

    refused_errors = (BlockingIOError,)

    def acquire(self, path):
        self.file = open(path, "a")
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def release(self):
        self.file.close()


class Filelock:
    """filelock.FileLock; it waits by a try every 50 ms."""

    def __init__(self):
        import filelock

        self.make = filelock.FileLock
        self.refused_errors = (filelock.Timeout,)

    def once(self, path):
        lock = self.make(path)
        lock.acquire(timeout=0)
        lock.release()

    def again(self, path):
        if not hasattr(self, "kept"):
            self.kept = self.make(path)
        self.kept.acquire(timeout=0)
        self.kept.release()

    def acquire(self, path):
        self.lock = self.make(path)
        self.lock.acquire()

    def release(self):
        self.lock.release()


class Portalocker:
    """portalocker.Lock; it waits by a try every 250 ms."""

    def __init__(self):
        import portalocker

        self.make = portalocker.Lock
        self.refused_errors = (portalocker.LockException, portalocker.AlreadyLocked)

    def once(self, path):
        lock = self.make(path, mode="a", timeout=0, fail_when_locked=True)
        lock.acquire()
        lock.release()

    def again(self, path):
        if not hasattr(self, "kept"):
            self.kept = self.make(path, mode="a", timeout=0, fail_when_locked=True)
        self.kept.acquire()
        self.kept.release()

    def acquire(self, path):
        self.lock = self.make(path, mode="a", timeout=600)
        self.lock.acquire()

    def release(self):
        self.lock.release()


class Fasteners:
    """fasteners.InterProcessLock; it waits by tries 10 to 100 ms apart."""

    refused_errors = (BlockingIOError,)

    def __init__(self):
        import fasteners

        self.make = fasteners.InterProcessLock

    def once(self, path, lock=None):
        lock = lock or self.make(path)
        if not lock.acquire(blocking=False):
            raise BlockingIOError()
        lock.release()

    def again(self, path):
        if not hasattr(self, "kept"):
            self.kept = self.make(path)
        self.once(path, self.kept)

    def acquire(self, path):
        self.lock = self.make(path)
        self.lock.acquire()

    def release(self):
        self.lock.release()


kind = {"fcntl": Fcntl, "filelock": Filelock, "portalocker": Portalocker, "fasteners": Fasteners}[sys.argv[1]]()


def refused(path):
    try:
        kind.once(path)
    except kind.refused_errors:
        return
    raise RuntimeError("was not refused")


FORMS = {"new": kind.once, "again": kind.again, "refused": refused}


def batch(form, milliseconds, path):
    deed, took, clock = FORMS[form], [], time.perf_counter_ns
    end = clock() + float(milliseconds) * 1e6
    while clock() < end or len(took) < 1:
        before = clock()
        deed(path)
        took.append((clock() - before) / 1000)
    return took


def acquire(path):
    kind.acquire(path)
    return wall()


def release():
    at = wall()
    kind.release()
    return at


def count(path, counter, start, until):
    times = 0
    while wall() < float(start):
        time.sleep(0.001)
    while wall() < float(until):
        kind.acquire(path)
        if wall() >= float(until):  # it came too late to count
            kind.release()
            break
        with open(counter) as file:
            value = int(file.read())
        with open(counter, "w") as file:
            file.write(str(value + 1))
        kind.release()
        times += 1
    return {"times": times, "failures": 0}


COMMANDS = {"batch": batch, "acquire": acquire, "release": release, "count": count}
print('"ready"', flush=True)
for line in sys.stdin:
    name, *rest = line.split()
    print(json.dumps(COMMANDS[name](*rest)), flush=True)
