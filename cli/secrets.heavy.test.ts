import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import { emptyFolder, lockstep } from './testing/in-process.js';

const PASSWORD = 'hunter2secret';

/** A server that knows no command, and repeats what it was sent. */
let server: Server;
let place = '';
beforeAll(async () => {
  server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (data) => {
      for (const command of String(data)
        .split(/\*\d+\r\n/)
        .slice(1)) {
        const [name, ...args] = command.split('\r\n').filter((_, i) => i % 2 === 1);
        socket.write(`-ERR unknown command '${name}', with args beginning with: '${args.join("' '")}'\r\n`);
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  place = `127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`;
});
afterAll(() => server.close());
afterEach(() => vi.unstubAllEnvs());

function addresses(): string[] {
  return [
    `redis://bob:${PASSWORD}@${place}`,
    `redis://:${PASSWORD}@127.0.0.1:1`,
    `redis://${place}/0?password=${PASSWORD}`,
    `http://bob:${PASSWORD}@${place}`,
    `redis://:a/${PASSWORD}@${place}`,
  ];
}

/** All that a run of the command said, and all that is in its folder but for what the test itself put there. */
async function left(argv: readonly string[], env: Record<string, string> = {}, config?: object): Promise<string> {
  const cwd = emptyFolder();
  if (config !== undefined) writeFileSync(join(cwd, 'lockstep.config.json'), JSON.stringify(config));
  const { code, stdout, stderr } = await lockstep(argv, { cwd, env: { ...env, LOCKSTEP_DEBUG: '1' } });
  expect(code).not.toBe(0);
  expect(stdout + stderr).not.toBe('');
  const files = readdirSync(cwd, { recursive: true, withFileTypes: true }).filter(
    (it) => it.isFile() && it.name !== 'lockstep.config.json',
  );
  return [stdout, stderr, ...files.map((it) => readFileSync(join(it.parentPath, it.name), 'latin1'))].join('\n');
}

it('no password of a queue is told or recorded, wherever it was given', async () => {
  for (const queue of addresses()) {
    const search = ['campaign', '--runs', '1'];
    expect(await left([...search, '--queue', queue])).not.toContain(PASSWORD);
    expect(await left(['campaign', 'status', '--json', `--queue=${queue}`])).not.toContain(PASSWORD);
    expect(await left([...search, '--queue'], { LOCKSTEP_QUEUE: queue })).not.toContain(PASSWORD);
    expect(await left(search, {}, { campaign: { queue } })).not.toContain(PASSWORD);
  }
});

it('no password that stands where none belongs is told', async () => {
  const [address = ''] = addresses();
  const lines = [
    [address],
    ['replay', address],
    ['verify', address],
    ['campaign', 'merge', address],
    ['check', '--nodes', address],
    ['check', '--faults', address],
    ['list', '--config', address],
    [`--${address}`],
    ['replay', 'S03', '--with', `policy=${address}`],
  ];
  for (const argv of lines) expect(await left(argv)).not.toContain(PASSWORD);
  expect(await left(['check'], {}, { check: { ttl: address } })).not.toContain(PASSWORD);
  expect(await left(['check'], {}, { [address]: {} })).not.toContain(PASSWORD);
});

it('the command that does without the configuration has no password of it', async () => {
  // Always the same, since it is a seed: too little to say anything, which is when it is told.
  const address = `redis://bob:${PASSWORD}@127.0.0.1:1`;
  const config = { check: { faults: 'client-crash=1', runs: 2, seed: address } };
  const said = await left(['check', '--workers', '1'], {}, config);
  expect(said).toContain('configured by lockstep.config.json');
  expect(/^lockstep: configured.*$/m.exec(said)?.[0]).not.toContain(PASSWORD);
});

it('no password of LOCKSTEP_REDIS is told or recorded', async () => {
  for (const url of addresses()) {
    const env = { LOCKSTEP_REDIS: url, LOCKSTEP_REQUIRE: 'redis', PATH: '' };
    // Nodes are looked for as this process is told.
    vi.stubEnv('LOCKSTEP_REDIS', url);
    expect(await left(['doctor'], env)).not.toContain(PASSWORD);
    expect(await left(['bench', '--nodes', '1'], env)).not.toContain(PASSWORD);
  }
});
