"""A coordinator and workers of this machine, from one program or from several versions of it."""
import json
import os
import subprocess
import sys
import time

# A worker on this machine joins in less than a second; a loaded machine may take longer.
JOIN_SECS = 60


class Pool:
    """Ends its processes with the context. `client` is the program of all commands."""

    def __init__(self, client, place):
        self.client, self.place, self.parts = client, place, {}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("BUILDPOOL_")}
        self.environment = {**kept, "HOME": str(place / "home")}
        (place / "home").mkdir()
        self.tokens = {}

    @classmethod
    def of_one(cls, program, place):
        """Starts a coordinator and a worker with the same program."""
        pool = cls(program, place)
        pool.start_coordinator(program)
        pool.start_worker(program)
        return pool

    def call(self, *words, text=True, **more):
        return subprocess.run([self.client, *words], env=self.environment, capture_output=True, text=text, **more)

    def token(self, program, role):
        words = ["token", "create", "--data-dir", str(self.place / "data"), "--role", role, "--name", role]
        made = subprocess.run([program, *words], env=self.environment, capture_output=True, text=True, check=True)
        return made.stdout.strip()

    def start(self, part, command, **variables):
        with open(self.place / f"{part}.log", "ab") as out:
            environment = {**self.environment, **variables}
            self.parts[part] = subprocess.Popen(command, env=environment, stdout=out, stderr=out)

    def start_coordinator(self, program, listen="127.0.0.1:0"):
        """Starts a coordinator. A later one on the same data needs the address of the first."""
        if not self.tokens:
            self.tokens = {role: self.token(program, role) for role in ("worker", "admin")}
        told = self.place / "data" / "url"
        told.unlink(missing_ok=True)
        self.start("coordinator", [program, "coordinator", "--data-dir", str(self.place / "data"), "--listen", listen])
        self.url = self.until(lambda: told.exists() and told.read_text().strip())
        self.environment |= {"BUILDPOOL_URL": self.url, "BUILDPOOL_TOKEN": self.tokens["admin"]}

    def start_worker(self, program):
        """Starts a worker, and waits until a client sees its version."""
        words = ["worker", "--coordinator", self.url, "--name", "sample", "--slots", "1", "--data-dir", str(self.place / "worker")]
        # Jobs need the user's own tools.
        home = os.environ.get("HOME", str(self.place))
        self.start("worker", [program, *words], BUILDPOOL_TOKEN=self.tokens["worker"], HOME=home)
        self.until(lambda: [one for one in self.workers() if one["connected"]])

    def workers(self):
        return json.loads(self.call("workers", "--json").stdout or "[]")

    def kill(self, part):
        """Ends a daemon without notice, as a crash does."""
        process = self.parts.pop(part)
        process.kill()
        process.wait(timeout=60)

    def until(self, condition):
        deadline = time.monotonic() + JOIN_SECS
        while time.monotonic() < deadline:
            if found := condition():
                return found
            time.sleep(0.1)
        logs = "\n".join(path.read_text(errors="replace") for path in self.place.glob("*.log"))
        sys.exit(f"the pool is not as expected after {JOIN_SECS} s\n{logs}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for part in reversed(list(self.parts.values())):
            part.terminate()
            part.wait(timeout=120)
