"""Prints one conversation for each client: the official Python and TypeScript clients, and the Inspector.

    transcripts.py BUILDPOOL

`CONFORMANCE_TOOLS` is the directory that `tests/conformance/setup` printed. The project has one planted bug; the pool is a
local one in a temporary directory. In a transcript, `>` begins a call and the following lines are the text of its answer.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from mcp import Client

from clients import World
from suite import inspector

SOURCE = '#include <stdio.h>\nint main(void) { return puts(2 + 2 == 5 ? "ok" : "sums.c:2: 2 + 2 is not 5") && 2 + 2 != 5; }\n'
MAKEFILE = "all: sums\nsums: sums.c\n\tcc -o sums sums.c\ntest: sums\n\t./sums\n"
CALLS = [
    ("build", {}),
    ("run_tests", {}),
    ("run_command", {"command": "tr a-z A-Z", "stdin": "text for the command\n"}),
]


def show(name, arguments, text):
    print(f"> {name} {json.dumps(arguments)}\n{text}", flush=True)


async def python(world):
    async with Client(world.stdio(), mode="auto") as client:
        for name, arguments in CALLS:
            result = await client.call_tool(name, arguments)
            show(name, arguments, result.content[0].text)


def typescript(world):
    tools = Path(os.environ["CONFORMANCE_TOOLS"])
    script = tools / "transcript.mjs"
    # Modules are looked up from where the file lies.
    script.write_text((Path(__file__).parent / "transcript.mjs").read_text())
    command = ["node", str(script), json.dumps(world.command()), json.dumps(world.environment), json.dumps(CALLS)]
    print(subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout, end="")


def with_inspector(world):
    for name, arguments in CALLS:
        call = ["--method", "tools/call", "--tool-name", name, "--tool-args-json", json.dumps(arguments)]
        answer = json.loads(inspector(world, *call).stdout)
        show(name, arguments, answer.get("result", answer)["content"][0]["text"])


def main():
    with tempfile.TemporaryDirectory() as temporary:
        world = World(sys.argv[1], temporary)
        (world.project / "Makefile").write_text(MAKEFILE)
        (world.project / "sums.c").write_text(SOURCE)
        print("== Python client")
        asyncio.run(python(world))
        print("== TypeScript client")
        typescript(world)
        print("== Inspector")
        with_inspector(world)


if __name__ == "__main__":
    main()
