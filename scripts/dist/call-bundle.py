#!/usr/bin/env python3
"""Unpacks an MCP bundle, starts its server as its manifest says, and calls `run_command`: call-bundle.py BUNDLE DIRECTORY.

DIRECTORY is the project. Prints the text of the answer. Only for tests of the packages: scripts/check-packages.sh.
"""
import json
import os
import subprocess
import sys
import tempfile
import zipfile


def main(bundle, project):
    with tempfile.TemporaryDirectory() as place:
        with zipfile.ZipFile(bundle) as archive:
            for entry in archive.infolist():
                path = archive.extract(entry, place)
                os.chmod(path, entry.external_attr >> 16 & 0o777)
        with open(os.path.join(place, "manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        values = {"__dirname": place, "user_config.project": project}
        for name, option in manifest["user_config"].items():
            values.setdefault(f"user_config.{name}", option.get("default", ""))

        def filled(text):
            for name, value in values.items():
                text = text.replace("${" + name + "}", value)
            return text

        config = manifest["server"]["mcp_config"]
        command = [filled(word) for word in [config["command"], *config["args"]]]
        environment = {**os.environ, **{name: filled(value) for name, value in config["env"].items()}}
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True)

        def send(message):
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            server.stdin.flush()

        def answer(number):
            for line in server.stdout:
                message = json.loads(line)
                if message.get("id") == number:
                    return message
            sys.exit("call-bundle.py: the server has ended")

        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "check", "version": "1"}}
        send({"id": 1, "method": "initialize", "params": client})
        answer(1)
        send({"method": "notifications/initialized"})
        call = {"name": "run_command", "arguments": {"command": "echo hello"}}
        send({"id": 2, "method": "tools/call", "params": call})
        result = answer(2)
        server.stdin.close()
        server.wait(timeout=60)
    if "error" in result or result["result"].get("isError"):
        sys.exit(f"call-bundle.py: {result}")
    print(result["result"]["content"][0]["text"])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
