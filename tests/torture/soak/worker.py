"""Python's fcntl.flock among the others: waits in the kernel. Its job is that of worker.mjs.

    worker.py JOB
"""

import fcntl
import json
import os
import random
import select
import sys
import time

job = json.loads(sys.argv[1])
who = f"{job['id']}.{os.getpid()}"
pipe = os.open(job["pipe"], os.O_WRONLY)
choices = random.Random(job["seed"])
counter = os.open(job["counter"], os.O_RDWR)
entries = os.open(job["list"], os.O_WRONLY | os.O_APPEND)


def say(text):
    os.write(pipe, f"{text}\n".encode())


def read():
    return int(os.pread(counter, 12, 0))


say(f"ready {who}")
while True:
    ready, _, _ = select.select([0], [], [], choices.random() * job["gap"] / 1000)
    if ready and not os.read(0, 100):
        break
    mode = "shared" if choices.random() < job["shared"] else "exclusive"
    descriptor = os.open(job["path"], os.O_RDWR | os.O_CREAT, 0o644)
    fcntl.flock(descriptor, fcntl.LOCK_SH if mode == "shared" else fcntl.LOCK_EX)
    say(f"enter {who} {mode}")
    before = read()
    if choices.random() < 0.5:
        time.sleep(choices.random() * job["hold"] / 1000)
    if mode == "exclusive":
        os.write(entries, f"{before + 1} {who}\n".encode())
        os.pwrite(counter, f"{before + 1:012}".encode(), 0)
    elif read() != before:
        say(f"wrong {who} the number changed under a reader")
    say(f"leave {who}")
    os.close(descriptor)
