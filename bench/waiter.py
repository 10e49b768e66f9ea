"""The same as waiter.mjs on fcntl.flock, which blocks in the kernel: the peer."""
import fcntl, sys, time

file = open(sys.argv[1], "a")
now = lambda: time.time() * 1000
say = lambda answer: print(answer, flush=True)

say('"ready"')
for line in sys.stdin:
    if line.startswith("acquire"):
        fcntl.flock(file, fcntl.LOCK_EX)
        say(now())
    elif line.startswith("release"):
        at = now()
        fcntl.flock(file, fcntl.LOCK_UN)
        say(at)
