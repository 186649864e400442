"""Measures answers: small real projects with a planted bug, over the official Python client, on a local pool.

    trial.py BUILDPOOL [--projects] [CASE]...

`--projects` measures published projects instead (`projects.py`), whose sources it fetches on the first call.
Prints a table with the bytes of each log and of the answer, and the calls until the answer has the cause.
Exits 1 if an answer lacks the cause or is larger than its target, unless the case states why. The JavaScript packages are those of the directory
TRIAL_MODULES (`npm install jest vitest mocha`); pytest is the one on PATH. `TRIAL_SHOW=1` prints the answers too. Cases whose programs are missing are skipped.
"""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from mcp import Client, StdioServerParameters

from cases import all_cases
from projects import all_projects, plant, source

SMALL_LOG_BYTES = 3_000
LARGE_LOG_BYTES = 20_000
BESIDE_SMALL_LOG_BYTES = 200
LARGE_LOG_SHARE = 0.15
CALLS_MAX = 5


def is_possible(case):
    modules = os.environ.get("TRIAL_MODULES")
    has = lambda name: Path(name).exists() if name.startswith("/") else shutil.which(name)
    return all(map(has, case.needs)) and (modules or not case.modules)


def lay_out(case, directory):
    if case.source:
        shutil.copytree(case.fetched, directory, dirs_exist_ok=True, symlinks=True)
        plant(directory, case.bug)
    for name, text in case.files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    if case.modules:
        (directory / "node_modules").symlink_to(os.environ["TRIAL_MODULES"])
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=directory, check=True)


async def calls_until_cause(client, case):
    """Returns the text of the first answer, the number of calls, and the job's id."""
    result = await client.call_tool(case.tool, case.arguments)
    first, job, calls = result.content[0].text, (result.structured_content or {}).get("job_id"), 1
    text = first
    while job and not re.search(case.cause, text) and calls < CALLS_MAX:
        calls += 1
        result = await client.call_tool("get_job", {"job_id": job, "wait_secs": 40})
        text = result.content[0].text
    return first, calls if re.search(case.cause, text) else None, job


def target(log, text):
    """Returns the figure that has a target, and whether it is reached."""
    if log < SMALL_LOG_BYTES:
        return f"+{text - log}" if text > log else str(text - log), text <= log + BESIDE_SMALL_LOG_BYTES
    share = text / log
    return f"{share:.0%}", log < LARGE_LOG_BYTES or share <= LARGE_LOG_SHARE


async def measure(binary, case, directory, environment):
    project = directory / case.name
    project.mkdir()
    lay_out(case, project)
    server = StdioServerParameters(
        command=binary, args=["mcp", "--wait", "5m", "--directory", str(project)], env=environment
    )
    async with Client(server, mode="legacy") as client:
        text, calls, job = await calls_until_cause(client, case)
    if os.environ.get("TRIAL_SHOW"):
        print(f"--- {case.name}\n{text}\n---")
    if not job:
        return None, text
    logs = [binary, "logs", job, "--stream", "interleaved"]
    log = subprocess.run(logs, env=environment, capture_output=True, check=True).stdout
    figure, is_small = target(len(log), len(text.encode()))
    missing = [fact for fact in case.facts if not re.search(fact, text)]
    row = f"| {case.name} | {len(log)} | {len(text.encode())} | {figure} | {calls or 'cause not shown'} |"
    problems = [] if is_small else ["too large"]
    problems += [] if calls == 1 else ["not one call"]
    problems += [f"lacks {fact}" for fact in missing]
    return row, ", ".join(problems)


async def main(binary, options):
    names = [word for word in options if word != "--projects"]
    every = all_projects if "--projects" in options else all_cases
    kept = Path(os.environ["TRIAL_MODULES"]).parent / "sources"
    environment = dict(os.environ, BUILDPOOL_LOCAL_IDLE_SECS="20")
    for name in ("BUILDPOOL_URL", "BUILDPOOL_TOKEN"):
        environment.pop(name, None)
    cases = [case for case in every() if not names or case.name in names]
    failed = 0
    print("| case | bytes of log | bytes of answer | answer | calls |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        environment.update(
            BUILDPOOL_LOCAL_DIR=str(directory / "pool"),
            XDG_CONFIG_HOME=str(directory / "config"),
            CARGO_TARGET_DIR=str(directory / "target"),
        )
        for case in cases:
            if not is_possible(case):
                print(f"skipped: {case.name} needs {', '.join(case.needs)} and its packages", file=sys.stderr)
                continue
            if case.source:
                case.fetched = source(case, kept)
                if not case.fetched:
                    continue
            row, problems = await measure(binary, case, directory, environment)
            failed += bool(problems) and not case.limit
            print(row or f"| {case.name} | no job |", flush=True)
            if problems and case.limit:
                print(f"limit {case.name}: {problems}: {case.limit}", file=sys.stderr, flush=True)
            elif problems:
                print(f"FAIL {case.name}: {problems}", file=sys.stderr, flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(asyncio.run(main(str(Path(sys.argv[1]).resolve()), sys.argv[2:])) > 0)
