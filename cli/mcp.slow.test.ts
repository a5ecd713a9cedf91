import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { describe, expect, it } from 'vitest';
import { emptyFolder } from './testing/in-process.js';
import { expectToFit } from './testing/output.js';

const TOP = fileURLToPath(new URL('..', import.meta.url));
const MAIN = join(TOP, 'dist/cli/main.js');

/** A project with a lock that is wrong, and one beside it that nobody is to look at. */
function project(): string {
  const folder = emptyFolder();
  const root = join(folder, 'project');
  mkdirSync(join(root, 'src'), { recursive: true });
  symlinkSync(join(TOP, 'node_modules'), join(folder, 'node_modules'));
  cpSync(join(TOP, 'audit/testing/locks/blind-delete.ts'), join(root, 'src/lock.ts'));
  writeFileSync(join(folder, 'secret-lock.ts'), '');
  symlinkSync(join(folder, 'secret-lock.ts'), join(root, 'src/link.ts'));
  return root;
}

/** The official client, of a server below `root`; a busy machine is no reason to end a call. */
async function connected(root: string, mode: 'legacy' | 'auto' = 'legacy'): Promise<Client> {
  const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode } });
  const args = [MAIN, 'mcp', '--root', root, '--limit', '10m'];
  await client.connect(new StdioClientTransport({ command: process.execPath, args }));
  return client;
}

/** Longer than anything here takes, ms: a call is bounded by the server. */
const PATIENT = { timeout: 250_000 };

async function called(client: Client, name: string, given: Record<string, unknown>, options = {}) {
  const { content, isError } = await client.callTool({ name, arguments: given }, { ...PATIENT, ...options });
  const [{ text = '' } = {}] = content as { text?: string }[];
  return { text, isError: isError ?? false };
}

describe('mcp, with the official client', () => {
  it('audits a file, and plays its finding again', async () => {
    const client = await connected(project());
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(['audit', 'replay', 'rules']);
    expect(client.getInstructions()).toContain('mend what fix says');
    const heard: number[] = [];
    const onprogress = ({ progress }: { progress: number }): number => heard.push(progress);
    const { text, isError } = await called(client, 'audit', { file: 'src/lock.ts', runs: 20 }, { onprogress });
    expect(isError).toBe(false);
    expect(heard).toContain(20);
    const audited = JSON.parse(text);
    expectToFit(audited);
    expect(audited).toMatchObject({ verdict: 'violated', findings: [{ id: 'blind-release' }] });
    const [{ schedule, decidedBy }] = audited.findings;
    expect(decidedBy).toMatch(/^src\/lock\.ts:\d+/);
    const again = await called(client, 'replay', { schedule });
    expect(JSON.parse(again.text)).toMatchObject({ reproduced: true, findings: audited.findings });
    await client.close();
  });

  it('audits the text of a file, and says what is wrong in a sentence', async () => {
    const client = await connected(project(), 'auto');
    const source = 'export const add = (a: number, b: number): number => a + b;';
    const [none, many, large, wrong, missing, outside, linked, above] = await Promise.all([
      called(client, 'audit', { source }),
      called(client, 'audit', { source, file: 'src/lock.ts' }),
      called(client, 'audit', { source: ' '.repeat(200_001) }),
      called(client, 'audit', { file: 'src/lock.ts', runs: 'many' }),
      called(client, 'audit', { file: 'src/no.ts' }),
      called(client, 'audit', { file: '../secret-lock.ts' }),
      called(client, 'audit', { file: 'src/link.ts' }),
      called(client, 'replay', { schedule: '/etc/hostname' }),
    ]);
    expect(none).toMatchObject({ isError: true, text: expect.stringContaining('no lock was found in it') });
    expect(many).toEqual({ isError: true, text: 'audit: give either file or source' });
    expect(large).toMatchObject({ isError: true, text: expect.stringMatching(/^source: /) });
    expect(wrong).toMatchObject({ isError: true, text: expect.stringMatching(/^runs: /) });
    expect(missing).toEqual({ isError: true, text: 'there is no such file: "src/no.ts"' });
    expect(outside).toEqual({ isError: true, text: '"../secret-lock.ts" is not below the root' });
    expect(linked).toEqual({ isError: true, text: '"src/link.ts" is not below the root' });
    expect(above).toEqual({ isError: true, text: '"/etc/hostname" is not below the root' });
    const rules = JSON.parse((await called(client, 'rules', {})).text);
    expect(Object.keys(rules.promises)).toEqual(['single', 'replicated', 'redlock', 'guard', 'update']);
    await expect(client.callTool({ name: 'no-such-tool', arguments: {} })).rejects.toThrow('there is no tool');
    await client.close();
  });
});

describe('mcp, line by line', () => {
  it('answers each request in one line of JSON and nothing else, and ends with its input', async () => {
    const child = spawn(process.execPath, [MAIN, 'mcp'], { cwd: project(), stdio: ['pipe', 'pipe', 'pipe'] });
    const out = new PassThrough();
    const chunks: Buffer[] = [];
    child.stdout.pipe(out).on('data', (chunk: Buffer) => chunks.push(chunk));
    const lines = [
      '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}',
      '{"jsonrpc":"2.0","method":"notifications/initialized"}',
      'no json',
      '[]',
      '{"jsonrpc":"2.0","id":2,"method":"server/discover"}',
      '{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"audit","arguments":{"file":"src/lock.ts"}}}',
      '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}',
      '{"jsonrpc":"2.0","id":3,"method":"ping"}',
    ];
    child.stdin.end(`${lines.join('\n')}\n`);
    const [code] = await once(child, 'close');
    expect(code).toBe(0);
    const answers = Buffer.concat(chunks)
      .toString()
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    const codes = Object.fromEntries(answers.map(({ id, error }) => [`${id} ${error?.code}`, 1]));
    expect(Object.keys(codes).sort()).toEqual(['1 undefined', '2 -32601', '3 undefined', 'null -32600', 'null -32700']);
    expect(answers).toHaveLength(5);
    expect(answers.find(({ id }) => id === 1).result.protocolVersion).toBe('2025-06-18');
  });
});
