"""The gateway by the official TypeScript clients, by the Inspector's command line (strict) and by the conformance suite,
for each revision; the bundle and the registry's entry by their own validators.

    suite.py BUILDPOOL

The suite runs against `buildpool-mcp-fixtures`: its fixtures, on the product's own service. Failures are compared with
`expected-failures.json` strictly: an unlisted failure fails, and so does a listed one that does not fail any more.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from clients import ROOT, World  # noqa: E402

REVISIONS = ("2025-11-25", "2026-07-28")
EXPECTED = Path(__file__).parent / "expected-failures.json"


def inspector(world, *arguments):
    # The Inspector passes on few variables, and the local pool of this user is not for tests.
    pool = f"BUILDPOOL_LOCAL_DIR={world.environment['BUILDPOOL_LOCAL_DIR']}"
    command = ["inspector", "--cli", "-q", "--format", "json", *arguments, "--", "env", pool, *world.command()]
    return subprocess.run(command, env=world.environment, capture_output=True, text=True, timeout=120)


def check_inspector(world):
    for era in ("legacy", "modern"):
        listed = inspector(world, "--strict", "--protocol-era", era, "--method", "tools/list")
        assert listed.returncode == 0, (era, listed.stdout[-3000:], listed.stderr[-3000:])
        call = ["--protocol-era", era, "--method", "tools/call", "--tool-name"]
        good = inspector(world, *call, "run_command", "--tool-args-json", '{"command":"echo hello"}')
        assert good.returncode == 0 and '"passed"' in good.stdout, (era, good)
        bad = inspector(world, *call, "run_command", "--tool-args-json", '{"command":""}')
        assert bad.returncode == 5, (era, bad)
        print(f"ok   inspector {era}", flush=True)


def check_typescript(world):
    tools = Path(os.environ["CONFORMANCE_TOOLS"])
    # Modules are looked up from where the file lies.
    script = tools / "client.mjs"
    script.write_text((Path(__file__).parent / "client.mjs").read_text())
    with world.http("--http-auth", "none") as address:
        command = ["node", str(script), json.dumps(world.command()), json.dumps(world.environment), f"http://{address}/mcp"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    print(done.stdout, end="", flush=True)
    assert done.returncode == 0, done.stderr[-5000:]


def entry_alone(out):
    """The registry's entry in a directory of its own."""
    alone = out / "entry"
    alone.mkdir()
    (alone / "server.json").write_text((out / "server.json").read_text())
    return alone


def check_bundle(world):
    """The bundle by its own validator; what the registry's entry says about it is so."""
    out = world.directory / "bundle"
    deploy = ROOT / "deploy" / "mcp"
    subprocess.run(["sh", str(deploy / "pack"), world.binary, str(out)], check=True, capture_output=True, timeout=120)
    (bundle,) = out.glob("*.mcpb")
    unpacked = out / "unpacked"
    for command in (["validate", str(deploy / "manifest.json")], ["unpack", str(bundle), str(unpacked)], ["info", str(bundle)]):
        done = subprocess.run(["mcpb", *command], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
    subprocess.run(["mcpb", "validate", str(unpacked / "manifest.json")], check=True, capture_output=True, timeout=60)
    started = subprocess.run([unpacked / "server" / "buildpool", "--version"], capture_output=True, text=True, timeout=60)
    assert started.returncode == 0 and "buildpool" in started.stdout, started
    entry = json.loads((out / "server.json").read_text())
    package = entry["packages"][0]
    assert package["fileSha256"] == hashlib.sha256(bundle.read_bytes()).hexdigest()
    # By the schema that the registry published, which this linter carries.
    linted = subprocess.run([str(Path(sys.executable).parent / "skillsaw"), "lint", "."], cwd=entry_alone(out), capture_output=True, text=True, timeout=60)
    assert linted.returncode == 0 and "mcp-registry" in linted.stdout, linted.stdout
    assert package["registryType"] == "mcpb" and "mcp" in package["identifier"], package
    assert package["identifier"].startswith("https://github.com/") and package["identifier"].endswith(bundle.name), package
    manifest = json.loads((deploy / "manifest.json").read_text())
    assert manifest["version"] == entry["version"] == package["version"], (manifest["version"], entry)
    print("ok   bundle", flush=True)


def checks_of(directory):
    """Status of each check, by scenario and id."""
    found = {}
    for file in sorted(Path(directory).rglob("checks.json")):
        scenario = file.parent.name
        for check in json.loads(file.read_text()):
            key = f"{scenario}:{check['id']}"
            # One check may be made several times; the worst counts.
            order = ["INFO", "SKIPPED", "SUCCESS", "WARNING", "FAILURE"]
            if key not in found or order.index(check["status"]) > order.index(found[key]):
                found[key] = check["status"]
    return found


def name_of(key):
    """Without what the suite puts before and behind a scenario's name in its directory."""
    scenario, check = key.split(":", 1)
    if scenario.startswith("server-"):
        scenario = scenario[len("server-"):]
    return f"{scenario.rsplit('-2026-', 1)[0]}:{check}"


def run_suite(world, revision):
    command = [str(Path(world.binary).with_name("buildpool-mcp-fixtures")), world.binary, str(world.project)]
    with world.listening(command) as address, tempfile.TemporaryDirectory() as out:
        command = ["conformance", "server", "--url", f"http://{address}/mcp", "--requirements", revision, "-o", out]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=dict(os.environ, NO_COLOR="1"))
        checks = {name_of(key): status for key, status in checks_of(out).items()}
    assert checks, done.stdout[-3000:] + done.stderr[-3000:]
    counted = {key: status for key, status in checks.items() if status not in ("INFO", "SKIPPED")}
    failed = {key for key, status in counted.items() if status in ("FAILURE", "WARNING")}
    return counted, failed


def main():
    listed = json.loads(EXPECTED.read_text())
    expected = {revision: set(listed[revision]) for revision in REVISIONS}
    wrong = False
    with tempfile.TemporaryDirectory(prefix="buildpool-suite-") as directory:
        world = World(sys.argv[1], directory)
        check_typescript(world)
        check_inspector(world)
        check_bundle(world)
        for revision in REVISIONS:
            counted, failed = run_suite(world, revision)
            listed = expected.get(revision, set())
            print(f"     conformance {revision}: {len(counted) - len(failed)} of {len(counted)} checks", flush=True)
            for key in sorted(failed - listed):
                print(f"FAIL {revision} {key}: {counted[key]}, and not expected")
                wrong = True
            for key in sorted(listed - failed):
                print(f"FAIL {revision} {key}: expected to fail, and does not")
                wrong = True
    if wrong:
        sys.exit(1)
    print("ok   conformance", flush=True)


if __name__ == "__main__":
    main()
