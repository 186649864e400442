"""Webhooks with a real receiver: failures of the receiver, kills of the coordinator, signatures by the official library of
Standard Webhooks, and dead letters.

    webhooks.py BUILDPOOL

Prints one line for each check and exits 1 when one fails.
"""

import contextlib
import http.server
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path

from api import PATIENCE, created_token, running
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

# Deliveries that the receiver refuses at first, and kills of the coordinator.
REFUSED = 3
KILLS = 5
# Database of the deliveries in the data directory. A delivery is retried for a day.
DATABASE = "webhooks.db"
DAY_MS = 24 * 60 * 60 * 1000


class Receiver(http.server.BaseHTTPRequestHandler):
    """Refuses the first deliveries, and keeps the others."""

    refused, accepted, refuses_all = 0, [], False

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if Receiver.refused < REFUSED or (Receiver.refuses_all and self.path == "/dead"):
            Receiver.refused += 1
            status = 503
        else:
            Receiver.accepted.append((dict(self.headers), body))
            status = 204
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_):
        pass


class Pool:
    def __init__(self, url, token):
        self.url, self.token = url, token

    def ask(self, method, path, body=None):
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/api/v1/{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.loads(answer.read() or b"null")

    def events(self):
        headers = {"Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(f"{self.url}/api/v1/events?after=0&follow=false&kinds=job_state", headers=headers)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            lines = answer.read().decode().splitlines()
        return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def wait(what, condition):
    deadline = time.monotonic() + 3 * PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.05)
    return found


def started(command):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return process, process.stdout.readline().strip()


def main():
    binary = str(Path(sys.argv[1]).resolve())
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    target = f"http://127.0.0.1:{server.server_address[1]}"
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        data = str(directory / "coordinator")
        admin, own = created_token(binary, data, "admin"), created_token(binary, data, "worker")
        config = directory / "coordinator.toml"
        config.write_text("webhook_private_addresses = true\n")
        command = [binary, "coordinator", "--config", str(config), "--data-dir", data, "--listen"]
        coordinator, link = started([*command, "127.0.0.1:0"])
        try:
            pool = Pool(link.replace("ws://", "http://"), admin)
            hook = pool.ask("POST", "webhooks", {"name": "chat", "url": f"{target}/hook", "kinds": ["job_state"]})
            worker = [binary, "worker", "--coordinator", link, "--name", "check", "--data-dir", str(directory / "worker")]
            with running(worker, r"(registered)", BUILDPOOL_TOKEN=own):
                for number in range(KILLS):
                    for part in range(3):
                        pool.ask("POST", "jobs", {"command": ["echo", f"{number}-{part}"]})
                    coordinator.send_signal(signal.SIGKILL)
                    coordinator.wait(timeout=PATIENCE)
                    coordinator, _ = started([*command, link.removeprefix("ws://")])
                wait("the jobs", lambda: all(job["state"] == "done" for job in pool.ask("GET", "jobs?limit=100")["jobs"]))
                wait("an empty queue", lambda: pool.ask("GET", "webhooks")["webhooks"][0]["queued"] == 0)
            verifier = Webhook(hook["secret"])
            arrived = Counter()
            for headers, body in Receiver.accepted:
                event = verifier.verify(body, {key.lower(): value for key, value in headers.items()})
                arrived[event["data"]["id"]] += 1
            events = pool.events()
            assert {event["id"] for event in events} == set(arrived), (events, sorted(arrived))
            # A coordinator that is away does not see each state between these two.
            for state in ("queued", "done"):
                jobs = Counter(event["job_id"] for event in events if event["state"] == state)
                assert len(jobs) == KILLS * 3 and set(jobs.values()) == {1}, (state, jobs)
            repeats = sum(arrived.values()) - len(arrived)
            print(f"ok   {len(events)} events over {KILLS} kills: each arrived, {repeats} twice, {Receiver.refused} refused before; all signatures are valid", flush=True)

            headers, body = Receiver.accepted[0]
            with contextlib.suppress(WebhookVerificationError):
                verifier.verify(body + b" ", {key.lower(): value for key, value in headers.items()})
                raise SystemExit("a changed body has a valid signature")

            # A delivery that was first tried more than a day ago is given up at its next failure.
            pool.ask("DELETE", f"webhooks/{hook['id']}")
            Receiver.refuses_all = True
            dead = pool.ask("POST", "webhooks", {"name": "dead", "url": f"{target}/dead", "kinds": ["job_state"]})
            pool.ask("POST", "jobs", {"command": ["true"], "wait_for_worker_secs": 3600})
            before = Receiver.refused
            wait("a refused delivery", lambda: Receiver.refused > before)
            coordinator.send_signal(signal.SIGKILL)
            coordinator.wait(timeout=PATIENCE)
            with sqlite3.connect(os.path.join(data, DATABASE)) as database:
                changed = database.execute("UPDATE deliveries SET first_ms = first_ms - ?, next_ms = 0 WHERE dead = 0", (DAY_MS,))
                assert changed.rowcount > 0
            coordinator, _ = started([*command, link.removeprefix("ws://")])
            path = f"webhooks/{dead['id']}/dead_letters"
            letters = wait("a dead letter", lambda: pool.ask("GET", path)["dead_letters"])
            assert "503" in json.dumps(letters[0]), letters
            print("ok   dead letter with its reason", flush=True)
        finally:
            coordinator.kill()
            coordinator.wait(timeout=PATIENCE)
            server.shutdown()


if __name__ == "__main__":
    main()
