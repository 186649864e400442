"""A job that leaves behind what it did: its starts, its end, and every byte that it wrote.

It holds a lock while it lives, so that a second run at the same time shows. Half way it waits as long as it is told to.
"""
import fcntl
import os
import random
import sys
import time

directory, seed, size, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
attempt = os.environ["BUILDPOOL_ATTEMPT"]


def note(name, text):
    with open(os.path.join(directory, name), "a") as file:
        file.write(text)


lock = open(os.path.join(directory, "lock"), "w")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    note("overlap", attempt + "\n")
    sys.exit(97)
note("started", attempt + "\n")
hold = os.path.join(directory, os.pardir, "hold")
dice = random.Random(seed)
truth = {fd: open(os.path.join(directory, f"{attempt}.{fd}"), "wb", buffering=0) for fd in (1, 2)}
left = size
while left > 0:
    length = min(left, dice.choice([1, 9, 80, 80, 700, 4096, 70000]))
    line = b"job %d at %d: " % (seed, left)
    data = (line + dice.randbytes(32).hex().encode() + b"\n") * (length // 60 + 1)
    if dice.random() < 0.1:
        data = dice.randbytes(length + 1)
    data = data[:length]
    fd = dice.choice([1, 1, 2])
    truth[fd].write(data)
    while data:
        data = data[os.write(fd, data):]
    left -= length
    while left <= size // 2 and os.path.exists(hold):
        time.sleep(0.02)
    time.sleep(seconds * length / size)
note("finished", attempt + "\n")
