// The gateway by the official TypeScript client: both eras, standard input and output as well as HTTP, and the client of the
// line before (version 1), which most programs still use.
//
//     client.mjs COMMAND_AS_JSON ENVIRONMENT_AS_JSON HTTP_URL
//
// Prints a line a check and exits 1 when one fails. The clients check each answer against the tool's output schema themselves.
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as OldStdio } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as OldHttp } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const [command, env, url] = process.argv.slice(2).map((text, at) => (at < 2 ? JSON.parse(text) : text));
const process_ = { command: command[0], args: command.slice(1), env, stderr: 'ignore' };
const me = { name: 'typescript-check', version: '1' };
const modern = { versionNegotiation: { mode: { pin: '2026-07-28' } } };
const auto = { versionNegotiation: { mode: 'auto' } };

// Both forms of an answer: the text has to say what the structured content says.
function facts(result) {
    const { structuredContent: structured, content } = result;
    assert.ok(structured, JSON.stringify(result));
    assert.equal(content.length, 1);
    // A text has the beginning of the id.
    const id = 'build' in structured ? '' : structured.job_id.replaceAll('-', '').slice(0, 12);
    for (const value of [structured.verdict ?? structured.state, id]) {
        assert.ok(content[0].text.toLowerCase().includes(value), `${value}: ${content[0].text}`);
    }
    return structured;
}

async function checks(client, call) {
    const { tools } = await client.listTools();
    assert.equal(tools.length, 10);
    const hello = facts(await call('run_command', { command: 'echo hello', verbosity: 'full' }));
    assert.equal(hello.verdict, 'passed');
    assert.match(hello.stdout, /hello/);
    const tested = facts(await call('run_tests', {}));
    assert.equal(tested.verdict, 'failed');
    assert.equal(tested.tier_1_findings[0].location.file, 'src/a.c');
    const wrong = await call('run_command', { command: 'x', verbosity: 'loud' });
    assert.ok(wrong.isError && wrong.content[0].text.includes('minimal, normal (standard), full (verbose)'));
    await assert.rejects(call('no_such_tool', {}), /no_such_tool/);

    const heard = [];
    const onprogress = (progress) => heard.push(progress.progress);
    const slow = { command: 'for i in 1 2 3; do echo $i; sleep 0.8; done' };
    assert.equal(facts(await call('run_command', slow, { onprogress })).verdict, 'passed');
    assert.ok(heard.length >= 1 && heard.every((now, at) => at === 0 || now > heard[at - 1]), heard.join());

    // A request that is cut leaves its job running, to be found again.
    const cut = { command: `sleep 4; echo survived # ${Math.random()}` };
    const stop = new AbortController();
    const asked = call('run_command', cut, { signal: stop.signal });
    const ended = assert.rejects(asked);
    await pause(1500);
    stop.abort('enough');
    await ended;
    const again = facts(await call('run_command', cut));
    assert.equal(again.verdict, 'passed');
    assert.equal(again.reattached, true);
}

const asks = (client, old) => (name, args, options) => {
    const request = { name, arguments: args };
    return old ? client.callTool(request, undefined, options) : client.callTool(request, options);
};

for (const [name, client, transport, era] of [
    ['stdio legacy', new Client(me), new StdioClientTransport(process_), 'legacy'],
    ['stdio auto', new Client(me, auto), new StdioClientTransport(process_), 'modern'],
    ['stdio modern', new Client(me, modern), new StdioClientTransport(process_), 'modern'],
    ['http legacy', new Client(me), new StreamableHTTPClientTransport(new URL(url)), 'legacy'],
    ['http modern', new Client(me, modern), new StreamableHTTPClientTransport(new URL(url)), 'modern'],
    ['stdio version 1', new OldClient(me), new OldStdio(process_), null],
    ['http version 1', new OldClient(me), new OldHttp(new URL(url)), null],
]) {
    await client.connect(transport);
    if (era) assert.equal(client.getProtocolEra(), era);
    await checks(client, asks(client, era === null));
    await client.close();
    console.log(`ok   TypeScript ${name}`);
}
