"""The gateway by the official Python client: both eras, standard input and output as well as HTTP, on a real local pool.

    clients.py BUILDPOOL

Prints a line a check and exits 1 when one fails. Everything that it makes is in a directory of its own.
"""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx2
import jsonschema
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

ERAS = {"legacy": "2025-11-25", "auto": "2026-07-28"}
LISTING_BYTES_MAX = 8_000
# Long enough for whatever comes to an end at all on a busy machine, in seconds.
PATIENCE = 60
ROOT = Path(__file__).resolve().parents[2]
SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "mcp-job.schema.json").read_text()))
CLAUDE = Implementation(name="claude-code", version="2")


class World:
    """A project, a pool of its own, and how to reach it."""

    def __init__(self, binary, directory):
        self.binary = str(Path(binary).resolve())
        self.directory = Path(directory)
        self.project = self.directory / "project"
        (self.project / ".git").mkdir(parents=True)
        (self.project / "Makefile").write_text(
            'all:\n\t@echo built\ntest:\n\t@echo "one ok"; echo "src/a.c:3:5: error: boom" >&2; exit 2\n'
        )
        self.environment = dict(
            os.environ,
            BUILDPOOL_LOCAL_DIR=str(self.directory / "pool"),
            BUILDPOOL_LOCAL_IDLE_SECS="120",
            XDG_CONFIG_HOME=str(self.directory / "config"),
            GATEWAY_MARK="inherited",
        )
        for name in ("BUILDPOOL_URL", "BUILDPOOL_TOKEN"):
            self.environment.pop(name, None)

    def command(self, *arguments):
        return [self.binary, "mcp", "--directory", str(self.project), *arguments]

    def stdio(self, *arguments):
        command = self.command(*arguments)
        return StdioServerParameters(command=command[0], args=command[1:], env=self.environment)

    def cli(self, *arguments):
        done = subprocess.run(
            [self.binary, *arguments], env=self.environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done
        return done.stdout

    def http(self, *arguments):
        """A listening gateway; gives its address."""
        return self.listening(self.command("--http", "127.0.0.1:0", *arguments))

    @contextlib.contextmanager
    def listening(self, command):
        """A program that prints `address=` when it listens; gives the address."""
        log = self.directory / "http.log"
        with open(log, "w") as output:
            process = subprocess.Popen(command, env=self.environment, stdout=output, stderr=output)
        try:
            deadline = time.monotonic() + PATIENCE
            while True:
                found = re.search(r"address=(\S+:\d+)", re.sub(r"\x1b\[[0-9;]*m", "", log.read_text()))
                if found:
                    break
                assert process.poll() is None and time.monotonic() < deadline, log.read_text()
                time.sleep(0.02)
            yield found.group(1)
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE)


def facts(result):
    """The structured answer, after checking that the text tells it too."""
    structured, text = result.structured_content, result.content[0].text
    assert structured is not None and len(result.content) == 1
    SCHEMA.validate(structured)
    shown = [structured["verdict"] or structured["state"]]
    if structured["job_id"] and "build" not in structured:
        # A text has the beginning of the id.
        shown.append(structured["job_id"].replace("-", "")[:12])
    for value in shown:
        assert value.lower() in text.lower(), (value, text)
    return structured


async def check_listing(client, era):
    listed = await client.list_tools()
    tools = {tool.name: tool for tool in listed.tools}
    assert len(tools) == 10, sorted(tools)
    dumped = [tool.model_dump(by_alias=True, exclude_none=True) for tool in listed.tools]
    size = len(json.dumps({"tools": dumped}, separators=(",", ":")).encode())
    assert size <= LISTING_BYTES_MAX, size
    again = await client.list_tools(cache_mode="bypass") if era == "auto" else await client.list_tools()
    assert [tool.name for tool in again.tools] == [tool.name for tool in listed.tools]
    for tool in listed.tools:
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
    return tools


async def check_calls(client, era):
    tools = await check_listing(client, era)
    for name, arguments, verdict in [
        ("run_command", {"command": "echo hello; echo $GATEWAY_MARK", "verbosity": "full"}, "passed"),
        ("run_tests", {}, "failed"),
        ("build", {}, "passed"),
    ]:
        result = await client.call_tool(name, arguments)
        answer = facts(result)
        assert not result.is_error and answer["verdict"] == verdict, (name, answer)
        jsonschema.validate(answer, tools[name].output_schema)
        if name == "run_command":
            assert "inherited" in answer["stdout"], answer
        if name == "run_tests":
            assert answer["chosen"].startswith("make test"), answer
            finding = answer["tier_1_findings"][0]
            assert finding["location"] == {"file": "src/a.c", "line": 3, "column": 5}, finding
            details = await client.call_tool(
                "get_finding_details", {"job_id": answer["job_id"], "finding_id": finding["id"]}
            )
            assert "boom" in details.structured_content["finding"]["message"]
            failed = answer["job_id"]
    logs = (await client.call_tool("get_job_logs", {"job_id": failed, "grep": "boom"})).structured_content
    assert "boom" in logs["stderr"] and logs["job_id"] == failed, logs
    again = facts(await client.call_tool("get_job", {"job_id": failed}))
    assert again["exit_code"] == 2 and again["crash_type"] == "build_failure", again
    jobs = (await client.call_tool("list_jobs", {"limit": 5})).structured_content["jobs"]
    assert any(job["job_id"] == failed for job in jobs)
    workers = (await client.call_tool("worker_status", {})).structured_content["workers"]
    assert len(workers) == 1 and workers[0]["connected"], workers
    templates = (await client.call_tool("list_templates", {})).structured_content["templates"]
    assert "raw" in [template["name"] for template in templates]


async def check_outcomes(client):
    """Each verbosity with each way to end: the answer is valid and within its budget."""
    commands = {
        "passed": "seq 1 3000",
        "failed": "seq 1 3000; for i in $(seq 1 60); do echo src/a$i.c:$i:5: error: no $i; done >&2; exit 65",
        "crashed": "echo before; kill -SEGV $$",
        "timed_out": "echo slow; sleep 30",
    }
    for verdict, command in commands.items():
        for verbosity, budget in (("minimal", 5_000), ("normal", 16_000), ("full", 32_000)):
            arguments = {"command": f"{command} # {verbosity}", "verbosity": verbosity, "timeout_secs": 1 if verdict == "timed_out" else 60}
            result = await client.call_tool("run_command", arguments)
            answer = facts(result)
            assert answer["verdict"] == verdict, (verdict, answer)
            for form in (result.content[0].text, json.dumps(answer, separators=(",", ":"), ensure_ascii=False)):
                assert len(form) <= budget, (verdict, verbosity, len(form))
            again = await client.call_tool("get_job", {"job_id": answer["job_id"], "verbosity": verbosity})
            facts(again)
    rejected = facts(await client.call_tool("run_command", {"command": "x", "labels": ["no-such-label"]}))
    assert rejected["verdict"] == "rejected", rejected
    build = facts(await client.call_tool("run_command", {"command": "sleep 60 # build", "on": [[], ["os"]], "wait_secs": 0}))
    cancelled = facts(await client.call_tool("cancel_job", {"job_id": build["request_id"]}))
    while cancelled["state"] != "done":
        cancelled = facts(await client.call_tool("get_job", {"job_id": build["request_id"], "wait_secs": 30}))
    assert cancelled["build"]["status"] == "cancelled", cancelled


async def check_mistakes(client):
    for name, arguments, part in [
        ("run_command", {}, "`command` is missing"),
        ("run_command", {"command": "x", "verbosity": "loud"}, "minimal, normal (standard), full (verbose)"),
        ("run_command", {"command": "x", "comand": "y"}, "valid are command"),
        ("run_command", {"command": "x", "cwd": "nowhere"}, "nowhere"),
        ("run_command", {"command": "x", "template": "nope"}, "raw"),
        ("run_command", {"command": "x", "labels": ["no-such-label"]}, "no-such-label"),
        ("get_job", {"job_id": "00000000-0000-7000-8000-000000000000"}, "list_jobs"),
        ("get_finding_details", {"finding_id": "f"}, "`job_id` is missing"),
        ("list_jobs", {"state": "asleep"}, "queued, preparing, running, sealing, done"),
    ]:
        result = await client.call_tool(name, arguments)
        text = result.content[0].text
        said = text if result.is_error else json.dumps(result.structured_content)
        assert part in said, (name, arguments, said)
        # A job that nobody can run is an answer about that job; everything else here is a mistake of the caller.
        assert result.is_error or result.structured_content["verdict"] == "rejected", result
    try:
        await client.call_tool("no_such_tool", {})
        raise AssertionError("an unknown tool was called")
    except Exception as error:
        assert "no_such_tool" in str(error) and not isinstance(error, AssertionError), error


async def check_long_work(client, world):
    """Running, progress, waiting, attaching, cancelling."""
    progress = []

    async def on_progress(done, total, message):
        progress.append((done, message))

    go = world.directory / f"go-{time.time_ns()}"
    command = f"until [ -e {go} ]; do sleep 0.1; done"
    started = facts(await client.call_tool("run_command", {"command": command, "wait_secs": 1}))
    assert started["state"] != "done" and started["verdict"] is None, started
    assert any(call.startswith("get_job ") for call in started["next"]), started
    waiting = client.call_tool(
        "get_job", {"job_id": started["job_id"], "wait_secs": 160}, progress_callback=on_progress
    )

    async def let_go():
        while not progress:
            await asyncio.sleep(0.05)
        go.touch()

    waited, _ = await asyncio.wait_for(asyncio.gather(waiting, let_go()), 2 * PATIENCE)
    waited = facts(waited)
    assert waited["verdict"] == "passed", waited
    anew = facts(await client.call_tool("run_command", {"command": command, "wait_secs": 0}))
    assert anew["job_id"] != started["job_id"], "an answer that was given is not given again"
    slow = {"command": "for i in 1 2 3 4 5; do echo line $i; sleep 0.6; done"}
    done = facts(await client.call_tool("run_command", slow, progress_callback=on_progress))
    assert done["verdict"] == "passed"
    await asyncio.sleep(0.3)
    numbers = [number for number, _ in progress]
    # The first line may be about what comes before there is a job to tell of.
    stages = ("asking the pool", "reaching the pool", "reading the working tree", "submitting")
    told = [text for _, text in progress if not text.startswith(stages)]
    assert len(told) >= 2 and all("running" in text or "queued" in text or "preparing" in text for text in told), progress
    assert len(numbers) == len(set(numbers)), numbers

    endless = facts(await client.call_tool("run_command", {"command": "sleep 600", "wait_secs": 0}))
    twin = facts(await client.call_tool("run_command", {"command": "sleep 600", "wait_secs": 0}))
    assert twin["job_id"] == endless["job_id"] and twin["reattached"], (endless, twin)
    ended = facts(await client.call_tool("cancel_job", {"job_id": endless["job_id"], "reason": "enough"}))
    assert ended["verdict"] == "cancelled", ended

    named = {"command": "echo named", "client_request_id": f"id-{os.getpid()}-{id(client)}"}
    first = facts(await client.call_tool("run_command", named))
    second = facts(await client.call_tool("run_command", named))
    assert first["job_id"] == second["job_id"] and second["reattached"], (first, second)

    build = facts(await client.call_tool("run_command", {"command": f"exit 3 # {time.time_ns()}", "on": [[], []]}))
    assert len(build["build"]["failed_jobs"]) == 2, build
    assert build["build"]["status"] == "failed" and "passed_jobs_count" not in build["build"], build
    same = facts(await client.call_tool("get_job", {"job_id": build["request_id"]}))
    assert same["build"]["failed_jobs"] == build["build"]["failed_jobs"], same


async def check_cancelled_request(client, world):
    """A request that is cut leaves its job running, to be found again."""
    command = {"command": "sleep 5; echo survived"}
    with contextlib.suppress(TimeoutError, Exception):
        await asyncio.wait_for(client.call_tool("run_command", command), 1.5)
    again = facts(await client.call_tool("run_command", command))
    assert again["verdict"] == "passed" and again["reattached"], again


async def check_changes(client, era, world, seen):
    """A new template is announced, and in the next listing."""
    config = world.project / ".buildpool" / "config.yaml"

    async def announced(act):
        if era == "auto":
            async with client.listen(tools_list_changed=True) as subscription:
                act()
                async with asyncio.timeout(PATIENCE):
                    async for _ in subscription:
                        return
        before = len(seen)
        act()
        async with asyncio.timeout(PATIENCE):
            while len(seen) == before:
                await asyncio.sleep(0.02)

    def write():
        config.parent.mkdir(exist_ok=True)
        config.write_text('test: "echo configured {filter}"\ntemplates: {mine: {include_regex: "FAIL"}}\n')

    await announced(write)
    try:
        listed = await client.list_tools(cache_mode="bypass") if era == "auto" else await client.list_tools()
        run = next(tool for tool in listed.tools if tool.name == "run_command")
        assert "mine" in run.input_schema["properties"]["template"]["enum"], run.input_schema
        tested = facts(await client.call_tool("run_tests", {"filter": "a b"}))
        assert tested["command"] == "echo configured 'a b'" and "config.yaml" in tested["chosen"], tested
    finally:
        await announced(config.unlink)


async def all_of(target, era, world, name):
    seen = []

    async def on_message(message):
        if "list_changed" in str(getattr(message, "method", "")) + type(message).__name__.lower() + str(message):
            seen.append(message)

    async with Client(target, mode=era, client_info=CLAUDE, message_handler=on_message, cache=None) as client:
        assert client.protocol_version == ERAS[era], client.protocol_version
        for check in (
            lambda: check_calls(client, era),
            lambda: check_mistakes(client),
            lambda: check_outcomes(client),
            lambda: check_long_work(client, world),
            lambda: check_cancelled_request(client, world),
            lambda: check_changes(client, era, world, seen),
        ):
            await check()
            print(f"ok   {name} {era}", flush=True)


def check_process(world):
    """What a client's launcher sees of the process: exit codes, promptness, a clean stdout, jobs that go on."""
    initialize = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    discover = {
        "jsonrpc": "2.0", "id": 1, "method": "server/discover",
        "params": {"_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }},
    }
    future = json.loads(json.dumps(discover))
    future["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2099-01-01"

    def start(*messages):
        process = subprocess.Popen(
            world.command(), env=world.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )
        for message in messages:
            process.stdin.write((message if isinstance(message, str) else json.dumps(message)) + "\n")
        process.stdin.flush()
        return process

    def answer(process):
        return json.loads(process.stdout.readline())

    slowest = [0.0]

    def ends(process, act, name):
        at = time.monotonic()
        act()
        code = process.wait(timeout=PATIENCE)
        took = time.monotonic() - at
        rest = process.stdout.read()
        assert code == 0, (name, code, took, process.stderr.read())
        slowest[0] = max(slowest[0], took)
        assert all(json.loads(line) for line in rest.splitlines()), (name, rest)

    process = start()
    ends(process, process.stdin.close, "end of input before anything was said")
    process = start(discover)
    assert "2026-07-28" in answer(process)["result"]["supportedVersions"]
    ends(process, process.stdin.close, "a bare probe")
    process = start(discover, initialize)
    answer(process)
    assert answer(process)["result"]["protocolVersion"] == "2025-11-25"
    ends(process, process.stdin.close, "discover, then initialize")
    process = start(future)
    error = answer(process)["error"]
    assert error["code"] == -32022 and error["data"]["supported"], error
    ends(process, process.stdin.close, "an unknown version")
    process = start("this is not JSON", "{}", initialize)
    ends(process, process.stdin.close, "noise")

    mark = world.directory / "orphan"
    call = {
        "jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "run_command", "arguments": {"command": f"sleep 2; echo on > {mark}"}},
    }
    for sign in (signal.SIGTERM, None):
        mark.unlink(missing_ok=True)
        call["params"]["arguments"]["command"] += f" # {sign}"
        process = start(initialize, call)
        answer(process)
        deadline = time.monotonic() + PATIENCE
        while not any("orphan" in job["command"] and job["state"] == "running" for job in json.loads(world.cli("jobs", "--json"))):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        act = process.stdin.close if sign is None else lambda: process.send_signal(sign)
        ends(process, act, f"{sign or 'end of input'} during a call")
        while not mark.exists():
            assert time.monotonic() < deadline, "the job did not outlive its gateway"
            time.sleep(0.05)
    print(f"ok   process (the slowest end took {slowest[0]:.2f} s)", flush=True)


def check_tasks(world, address):
    """The tasks extension: given to who declares it, answered from the pool's records."""
    tasks = {"extensions": {"io.modelcontextprotocol/tasks": {}}}

    def post(method, params, capabilities=tasks, name=None):
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        }
        headers = {
            "accept": "application/json, text/event-stream", "content-type": "application/json",
            "mcp-protocol-version": "2026-07-28", "mcp-method": method,
        }
        if name:
            headers["mcp-name"] = name
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": dict(params, _meta=meta)}
        answered = httpx2.post(f"http://{address}/mcp", json=body, headers=headers, timeout=60)
        if answered.headers["content-type"].startswith("application/json"):
            return answered.json()
        return json.loads(answered.text.rsplit("data: ", 1)[1])

    def run(command, capabilities=tasks, **more):
        arguments = dict({"command": command}, **more)
        return post("tools/call", {"name": "run_command", "arguments": arguments}, capabilities, "run_command")["result"]

    def until(task, status):
        deadline = time.monotonic() + PATIENCE
        while True:
            state = post("tasks/get", {"taskId": task}, name=task)["result"]
            if state["status"] == status:
                return state
            assert state["status"] == "working" and time.monotonic() < deadline, state
            time.sleep(0.1)

    go = world.directory / f"go-{time.time_ns()}"
    until_go = f"until [ -e {go} ]; do sleep 0.1; done"
    created = run(f"{until_go}; echo done; exit 4")
    assert created["resultType"] == "task" and created["status"] == "working" and created["ttlMs"] > 86_400_000, created
    build = run(f"{until_go}; exit 1", on=[[], []])
    assert build["taskId"].startswith("build-"), build
    go.touch()
    done = until(created["taskId"], "completed")
    assert done["result"]["structuredContent"]["exit_code"] == 4, done
    assert done["result"]["structuredContent"]["job_id"] == created["taskId"], done
    quick = run("true")
    # On a busy machine even this may take long enough for a task.
    if quick["resultType"] == "task":
        quick = until(quick["taskId"], "completed")["result"]
    assert quick["structuredContent"]["verdict"] == "passed", quick
    plain = run("sleep 600", capabilities={}, wait_secs=1)
    assert plain["resultType"] == "complete" and plain["structuredContent"]["state"] != "done", plain
    task = plain["structuredContent"]["job_id"]
    assert post("tasks/cancel", {"taskId": task}, name=task)["result"]["resultType"] == "complete"
    until(task, "cancelled")
    built = until(build["taskId"], "completed")
    assert built["result"]["structuredContent"]["build"]["status"] == "failed", built
    unknown = post("tasks/get", {"taskId": "no-such-task"}, name="no-such-task")
    assert unknown["error"]["code"] == -32602, unknown
    assert post("tasks/get", {"taskId": task}, capabilities={}, name=task)["error"]["code"] == -32021
    print("ok   tasks", flush=True)


def check_http(world):
    """Access over HTTP: origins, hosts, tokens, sizes, projects by URL."""
    other = world.directory / "other"
    other.mkdir(exist_ok=True)
    token = json.loads(world.cli("token", "create", "--role", "submit", "--name", f"t{time.time_ns()}", "--json"))["token"]
    worker = json.loads(world.cli("token", "create", "--role", "worker", "--name", f"w{time.time_ns()}", "--json"))["token"]
    initialize = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    accept = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    with world.http("--project", f"other={other}") as address, httpx2.Client() as http:
        def post(path="/mcp", body=initialize, **headers):
            headers = {name.replace("_", "-"): value for name, value in headers.items()}
            content = body if isinstance(body, (bytes, str)) else json.dumps(body)
            return http.post(f"http://{address}{path}", content=content, headers=accept | headers)

        bearer = f"Bearer {token}"
        refused = post()
        assert refused.status_code == 401, refused
        challenge = refused.headers["www-authenticate"]
        url = re.search(r'resource_metadata="([^"]+)"', challenge).group(1)
        assert 'scope="submit"' in challenge, challenge
        metadata = http.get(url).json()
        assert metadata["resource"] == f"http://{address}/mcp", metadata
        assert post(authorization="Bearer bp_0_wrong").status_code == 401
        assert 'error="invalid_token"' in post(authorization="Bearer bp_0_wrong").headers["www-authenticate"]
        assert post(authorization=f"Bearer {worker}").status_code == 403
        assert post(authorization=bearer).status_code == 200
        assert post(authorization=bearer, path="/mcp/p/other").status_code == 200
        assert post(authorization=bearer, path="/mcp/p/unknown").status_code == 404
        assert post(authorization=bearer, origin="https://evil.example").status_code == 403
        assert post(authorization=bearer, origin="http://localhost:5173").status_code == 200
        assert post(authorization=bearer, host="evil.example").status_code == 403
        assert http.get(f"http://{address}/mcp", headers={"authorization": bearer, "origin": "https://evil.example"}).status_code == 403
        assert post(authorization=bearer, body=b" " * (5 << 20)).status_code == 413

    async def confined():
        with world.http("--project", f"other={other}") as address:
            headers = {"authorization": f"Bearer {token}"}
            async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
                for path, directory in (("/mcp", world.project), ("/mcp/p/other", other)):
                    transport = streamable_http_client(f"http://{address}{path}", http_client=http)
                    async with Client(transport) as client:
                        where = facts(await client.call_tool("run_command", {"command": "pwd", "verbosity": "full"}))
                        assert where["stdout"].strip() == str(directory.resolve()), where
                        outside = await client.call_tool("run_command", {"command": "pwd", "cwd": "/"})
                        assert outside.is_error and "outside" in outside.content[0].text, outside

    asyncio.run(confined())
    for arguments in (["--http", "0.0.0.0:0"], ["--http", "0.0.0.0:0", "--http-auth", "none"]):
        done = subprocess.run(world.command(*arguments), env=world.environment, capture_output=True, text=True, timeout=20)
        assert done.returncode == 2 and "127.0.0.1" in done.stderr, done
    print("ok   http access", flush=True)


def main():
    with tempfile.TemporaryDirectory(prefix="buildpool-clients-") as directory:
        world = World(sys.argv[1], directory)
        for era in ERAS:
            asyncio.run(all_of(world.stdio(), era, world, "stdio"))
        check_process(world)
        with world.http("--http-auth", "none") as address:
            for era in ERAS:
                asyncio.run(all_of(f"http://{address}/mcp", era, world, "http"))
            check_tasks(world, address)
        check_http(world)

        async def read_only():
            async with Client(world.stdio("--read-only")) as client:
                names = [tool.name for tool in (await client.list_tools()).tools]
                assert names == ["get_job", "get_job_logs", "get_finding_details", "list_jobs", "worker_status", "list_templates"], names

        asyncio.run(read_only())
        print("ok   read-only", flush=True)


if __name__ == "__main__":
    main()
