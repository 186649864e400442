#!/usr/bin/env python3
"""Compares buildpool with ssh and HyperQueue, interleaved in one run: tests/benches/peers.py [ROUNDS] [MIB] [JOBS]

Each round runs `true` once through each of them, then the stream round copies a file of MIB mebibytes, and the last
rounds run JOBS jobs `true`, two at a time. The yardsticks are the same command as a child of this script, `cat` into a
pipe, and `xargs -P 2`. A command includes the start of its own client.

buildpool: BUILDPOOL, or target/release/buildpool, with a coordinator and a worker of its own on 127.0.0.1.
ssh:       a server of its own on 127.0.0.1, with a multiplexed connection. It is skipped if sshd(8) is missing.
hq:        a server and a worker of its own, if `hq` is on PATH. The rounds of many jobs need its Python package
           (`pip install hyperqueue`) instead. It keeps no record of its jobs on the disk.
"""

import http.client
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 100
MIB = int(sys.argv[2]) if len(sys.argv) > 2 else 256
JOBS = int(sys.argv[3]) if len(sys.argv) > 3 else 2000
STREAM_ROUNDS = 3
MANY_ROUNDS = 3
SLOTS = 2
START_WITHIN = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(what, condition):
    deadline = time.monotonic() + START_WITHIN
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"peers.py: waited {START_WITHIN} s in vain: {what}")
        time.sleep(0.05)


def accepts(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def succeeds(command, environment):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.run(command, env=environment, check=False, **quiet).returncode == 0


class Pool:
    """A coordinator and a worker with two slots."""

    name = "buildpool run"

    def __init__(self, place, start):
        default = Path(__file__).resolve().parents[2] / "target/release/buildpool"
        self.program = program = os.environ.get("BUILDPOOL", str(default))
        if not os.access(program, os.X_OK):
            sys.exit(f"peers.py: {program} is not a program; build it, or name another by BUILDPOOL")
        port, data = free_port(), place / "coordinator"
        self.environment = {**os.environ, "HOME": str(place), "BUILDPOOL_URL": f"ws://127.0.0.1:{port}"}
        listen = ["--data-dir", data, "--listen", f"127.0.0.1:{port}"]
        start([program, "coordinator", *listen], self.environment)
        wait_until("the coordinator listens", lambda: accepts(port))
        for role in ("admin", "submit", "worker"):
            create = [program, "token", "create", "--role", role, "--name", role, "--data-dir", data]
            token = subprocess.run(create, env=self.environment, check=True, capture_output=True, text=True)
            self.environment["BUILDPOOL_TOKEN"] = token.stdout.strip()
            if role == "admin":
                admin = token.stdout.strip()
            elif role == "submit":
                submit = dict(self.environment)
        worker = [program, "worker", "--name", "peer", "--slots", str(SLOTS), "--data-dir", place / "worker"]
        start(worker, self.environment)
        self.environment = submit
        wait_until("the worker joins", lambda: succeeds(self.command("true"), submit))
        self.link, self.admin = http.client.HTTPConnection("127.0.0.1", port), admin

    def command(self, *command):
        return [self.program, "run", "--no-snapshot", "--", *command]

    def call(self, method, path, body=None):
        headers = {"Authorization": f"Bearer {self.admin}", "Content-Type": "application/json"}
        self.link.request(method, f"/api/v1/{path}", body and json.dumps(body), headers)
        answer = self.link.getresponse()
        text = answer.read()
        if answer.status >= 300:
            sys.exit(f"peers.py: {method} {path}: {answer.status} {text.decode(errors='replace')}")
        return json.loads(text)

    def many(self):
        """Runs jobs that wait for a drained worker, from its resume until the last one is done."""
        self.call("POST", "workers/peer/drain")
        for _ in range(JOBS):
            self.call("POST", "jobs", {"command": ["true"]})
        began = time.monotonic()
        self.call("POST", "workers/peer/resume")
        # Jobs of one priority run in their order, so few are left when none is queued.
        for state in ("queued", "preparing", "running", "sealing"):
            while self.call("GET", f"jobs?state={state}&limit=1")["jobs"]:
                time.sleep(0.02)
        return time.monotonic() - began


class Ssh:
    """A server with one key, and a client with one shared connection."""

    name = "ssh, multiplexed"

    def __init__(self, place, start):
        server = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
        if server is None:
            raise FileNotFoundError("sshd")
        port = free_port()
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / key], check=True)
        Path("/run/sshd").mkdir(exist_ok=True)
        (place / "authorized").write_bytes((place / "user.pub").read_bytes())
        settings = [f"Port={port}", "ListenAddress=127.0.0.1", f"HostKey={place}/host", "PidFile=none", "StrictModes=no"]
        settings += [f"AuthorizedKeysFile={place}/authorized", "UsePAM=no", "PermitRootLogin=yes"]
        start([server, "-D", "-f", "/dev/null", *(part for one in settings for part in ("-o", one))], os.environ)
        wait_until("sshd listens", lambda: accepts(port))
        self.environment = dict(os.environ)
        options = ["BatchMode=yes", "StrictHostKeyChecking=no", f"UserKnownHostsFile={place}/known", "LogLevel=ERROR"]
        options += ["ControlMaster=auto", f"ControlPath={place}/mux", "ControlPersist=600"]
        self.ssh = ["ssh", "-p", str(port), "-i", f"{place}/user", *(part for one in options for part in ("-o", one))]
        subprocess.run([*self.ssh, "127.0.0.1", "true"], check=True, stderr=subprocess.DEVNULL)

    def command(self, *command):
        return [*self.ssh, "127.0.0.1", *command]

    def stop(self):
        subprocess.run([*self.ssh, "-O", "exit", "127.0.0.1"], check=False, stderr=subprocess.DEVNULL)


class HyperQueue:
    """A server and a worker. It does not send output over the network, so it has no stream round."""

    name = "hq submit --wait"

    def __init__(self, place, start):
        if shutil.which("hq") is None:
            raise FileNotFoundError("hq")
        self.environment = {**os.environ, "HQ_SERVER_DIR": str(place / "hq")}
        start(["hq", "server", "start"], self.environment)
        wait_until("hq's server answers", lambda: succeeds(["hq", "job", "list"], self.environment))
        start(["hq", "worker", "start", "--cpus", "1"], self.environment)
        wait_until("hq's worker joins", lambda: succeeds(self.command("true"), self.environment))

    def command(self, *command):
        return ["hq", "submit", "--wait", "--stdout", "none", "--stderr", "none", *command]


class HyperQueueCluster:
    """A server and a worker with two slots, in a process of their own."""

    name = "hq job of many tasks"

    SCRIPT = """
import sys, time
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
with LocalCluster() as cluster:
    cluster.start_worker(WorkerConfig(cores=int(sys.argv[1])))
    client, job = cluster.client(), Job()
    for _ in range(int(sys.argv[2])):
        job.program(["true"], stdout=None, stderr=None)
    began = time.monotonic()
    client.wait_for_jobs([client.submit(job)])
    print("took", time.monotonic() - began)
"""

    def __init__(self):
        if subprocess.run([sys.executable, "-c", "import hyperqueue"], capture_output=True, check=False).returncode != 0:
            raise FileNotFoundError("its Python package")

    def many(self):
        command = [sys.executable, "-c", self.SCRIPT, str(SLOTS), str(JOBS)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return float(done.stdout.rsplit("took", 1)[1])


class Child:
    """The yardstick: a child of this script."""

    name = "fork and exec"
    environment = None

    def command(self, *command):
        return list(command)

    def many(self):
        began = time.monotonic()
        numbers = "\n".join(map(str, range(JOBS)))
        subprocess.run(["xargs", "-P", str(SLOTS), "-I", "{}", "true"], input=numbers, text=True, check=True)
        return time.monotonic() - began


def timed(peer, *command):
    began = time.monotonic()
    done = subprocess.Popen(peer.command(*command), env=peer.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    count = 0
    while part := done.stdout.read(1 << 20):
        count += len(part)
    error = done.stderr.read()
    if done.wait() != 0:
        sys.exit(f"peers.py: {peer.name} failed: {error.decode(errors='replace')}")
    return time.monotonic() - began, count


def compare(peers, place):
    times = {peer.name: [] for peer in peers}
    for _ in range(ROUNDS):
        for peer in peers:
            times[peer.name].append(timed(peer, "true")[0])
    yardstick = statistics.median(times[Child.name])
    for name, series in times.items():
        median, late = statistics.median(series), sorted(series)[len(series) * 99 // 100]
        print(f"true     {name:18} p50 {median * 1e3:7.2f} ms  p99 {late * 1e3:7.2f} ms  {median / yardstick:6.1f} x")

    line = b"".join(b"%07d a line of a log with some text in it\n" % number for number in range(4096))
    file, size = place / "log", MIB << 20
    with file.open("wb") as out:
        for _ in range(size // len(line) + 1):
            out.write(line)
        out.truncate(size)
    streaming = [peer for peer in peers if not isinstance(peer, HyperQueue)]
    times = {peer.name: [] for peer in streaming}
    for _ in range(STREAM_ROUNDS):
        for peer in streaming:
            took, count = timed(peer, "cat", str(file))
            if count != size:
                sys.exit(f"peers.py: {peer.name} copied {count} of {size} bytes")
            times[peer.name].append(took)
    yardstick = statistics.median(times[Child.name])
    for name, series in times.items():
        median = statistics.median(series)
        print(f"stream   {name:18} {size / median / 1e6:7.0f} MB/s  {100 * yardstick / median:5.0f} % of the pipe")


def compare_many(peers):
    times = {peer: [] for peer in peers}
    for _ in range(MANY_ROUNDS):
        for peer in peers:
            times[peer].append(peer.many() / JOBS)
    yardstick = statistics.median(times[peers[0]])
    for peer, series in times.items():
        name = "xargs -P 2" if isinstance(peer, Child) else peer.name
        median = statistics.median(series)
        print(f"many     {name:18} {median * 1e6:7.0f} us a job  {median / yardstick:6.1f} x")


def main():
    children = []

    def start(command, environment):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
        children.append(subprocess.Popen([str(part) for part in command], env=environment, **quiet))

    with tempfile.TemporaryDirectory(prefix="bpp") as directory:
        place, peers = Path(directory), [Child()]
        try:
            for kind in (Pool, Ssh, HyperQueue):
                try:
                    peers.append(kind(place, start))
                except FileNotFoundError as missing:
                    print(f"SKIPPED, NOT MEASURED: {kind.name}: {missing} is not on this machine")
            compare(peers, place)
            many = [peer for peer in peers if isinstance(peer, (Child, Pool))]
            try:
                many.append(HyperQueueCluster())
            except FileNotFoundError as missing:
                print(f"SKIPPED, NOT MEASURED: {HyperQueueCluster.name}: {missing} is not on this machine")
            compare_many(many)
        finally:
            for peer in peers:
                if isinstance(peer, Ssh):
                    peer.stop()
            for child in reversed(children):
                child.terminate()
            for child in children:
                try:
                    child.wait(timeout=START_WITHIN)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()


main()
