// One conversation by the official TypeScript client, for `transcripts.py`.
//
//     transcript.mjs COMMAND_AS_JSON ENVIRONMENT_AS_JSON CALLS_AS_JSON
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [command, env, calls] = process.argv.slice(2).map((text) => JSON.parse(text));
const client = new Client({ name: 'transcript', version: '1' }, { versionNegotiation: { mode: 'auto' } });
await client.connect(new StdioClientTransport({ command: command[0], args: command.slice(1), env, stderr: 'ignore' }));
for (const [name, args] of calls) {
    const result = await client.callTool({ name, arguments: args });
    console.log(`> ${name} ${JSON.stringify(args)}\n${result.content[0].text}`);
}
await client.close();
