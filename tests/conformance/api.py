"""The HTTP API by its OpenAPI document, on a real coordinator with a worker: schemathesis checks every request, and a Python
client that openapi-python-client generates runs a job.

    api.py BUILDPOOL [SEED]

Prints one line for each check and exits 1 when one fails. Each run sends the same requests. With a seed, it sends random
ones instead, for 40 seconds.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
# Deadline of a start or of a job on a busy machine, in seconds.
PATIENCE = 60
# Requests of schemathesis for each operation and phase. The number is fixed, not the time, so that no failure depends on
# the speed of the machine.
EXAMPLES = 20
# Duration of a run with random requests, in seconds.
SECONDS = 40
# Deadline of schemathesis on a busy machine, in seconds.
SCHEMA_PATIENCE = 600

CLIENT = """
import sys
from api_client.api.jobs import get_job, get_job_log, submit_job
from api_client.client import AuthenticatedClient
from api_client.models.new_job import NewJob

url, token = sys.argv[1:]
with AuthenticatedClient(base_url=url, token=token, raise_on_unexpected_status=True, timeout=60.0) as client:
    created = submit_job.sync(client=client, body=NewJob(command=["sh", "-c", "echo generated; exit 3"]))
    done = get_job.sync(created.job_id, client=client, wait_secs=50)
    assert (done.state, done.verdict, done.exit_code) == ("done", "failed", 3), done
    log = get_job_log.sync(created.job_id, client=client)
    assert log.stdout == "generated\\n", log
"""


@contextlib.contextmanager
def running(command, marker, **environment):
    """Starts a program; gives the value that its log shows after `marker`."""
    with tempfile.NamedTemporaryFile("r", suffix=".log") as log:
        with open(log.name, "w") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, env=dict(os.environ, **environment))
        try:
            deadline = time.monotonic() + PATIENCE
            while True:
                text = re.sub(r"\x1b\[[0-9;]*m", "", Path(log.name).read_text())
                found = re.search(marker, text)
                if found:
                    break
                assert process.poll() is None and time.monotonic() < deadline, text
                time.sleep(0.02)
            yield found.group(1)
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE)


def created_token(binary, data, role):
    command = [binary, "token", "create", "--role", role, "--name", f"check-{role}", "--data-dir", data, "--json"]
    made = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)
    return json.loads(made.stdout)["token"]


def check_schema(url, token, directory, seed):
    """Every documented request, with valid and with wrong values, has a documented answer."""
    same = ["--max-examples", str(EXAMPLES), "--generation-deterministic"]
    random = ["--max-time", str(SECONDS), "--seed", seed, "--generation-database", "none"]
    chosen = same if seed is None else random
    command = [
        str(BIN / "schemathesis"), "--config-file", str(HERE / "schemathesis.toml"),
        "run", f"{url}/api/v1/openapi.json", "--header", f"Authorization: Bearer {token}",
        *chosen,
    ]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=SCHEMA_PATIENCE)
    summary = [line.strip() for line in done.stdout.splitlines() if re.search(r"generated|passed|Tested", line)]
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]
    print(f"ok   schemathesis: {'; '.join(summary)}", flush=True)


def check_client(url, token, directory):
    """A generated client submits a job, waits for its end and reads its log."""
    command = [
        str(BIN / "openapi-python-client"), "generate", "--url", f"{url}/api/v1/openapi.json",
        "--meta", "none", "--output-path", str(directory / "api_client"), "--fail-on-warning",
    ]
    tools = dict(os.environ, PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}")
    made = subprocess.run(command, cwd=directory, env=tools, capture_output=True, text=True, timeout=PATIENCE)
    assert made.returncode == 0, made.stdout + made.stderr
    environment = dict(os.environ, PYTHONPATH=str(directory))
    command = [sys.executable, "-c", CLIENT, url, token]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=2 * PATIENCE)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    print("ok   generated Python client", flush=True)


def main():
    binary = str(Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        data = str(directory / "coordinator")
        admin, own = created_token(binary, data, "admin"), created_token(binary, data, "worker")
        command = [binary, "coordinator", "--listen", "127.0.0.1:0", "--data-dir", data]
        with running(command, r"url=(ws://\S+)") as link:
            url = link.replace("ws://", "http://")
            command = [binary, "worker", "--coordinator", link, "--name", "check", "--data-dir", str(directory / "worker")]
            with running(command, r"(registered)", BUILDPOOL_TOKEN=own):
                check_client(url, admin, directory)
            # The commands of schemathesis are random texts, so no worker may run them.
            forget = [binary, "workers", "forget", "check", "--coordinator", link]
            subprocess.run(forget, check=True, stdout=subprocess.DEVNULL, env=dict(os.environ, BUILDPOOL_TOKEN=admin), timeout=PATIENCE)
            check_schema(url, admin, directory, sys.argv[2] if len(sys.argv) > 2 else None)


if __name__ == "__main__":
    main()
