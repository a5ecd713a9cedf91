import { PassThrough } from 'node:stream';
import { expect, it } from 'vitest';
import { interview } from './advise-interview.js';
import type { Io } from './io.js';

/** A person who types these answers, one at each question. */
function answering(answers: readonly string[]): { io: Io; asked: string[] } {
  const asked: string[] = [];
  const left = [...answers];
  const stdin = Object.assign(new PassThrough(), { isTTY: true });
  const write = (text: string): void => {
    asked.push(text);
    if (!text.endsWith('] ')) return;
    const answer = left.shift();
    setImmediate(() => (answer === undefined ? stdin.end() : stdin.write(`${answer}\n`)));
  };
  const { signal } = new AbortController();
  const out = { isTTY: true, write };
  return { io: { stdin, stdout: out, stderr: out, env: {}, cwd: '/', signal, command: 'lockstep' }, asked };
}

it('asks one question after the other, again where an answer cannot be read', async () => {
  const { io, asked } = answering(['3', 'often', 'everysec', '', '1s', '', '0s', 'redsync-4', '', '8s', '3s', '']);
  expect(await interview(io)).toEqual({
    nodes: { count: 3, persistence: 'everysec', supervisor: 'systemd', restart: '1s' },
    clocks: { steps: '100ms' },
    pauses: { process: '0s' },
    client: { library: 'redsync-4', ttl: '8s' },
    // As that client has it, which uses a pool of connections.
    network: { reordering: true },
    work: { longest: '3s' },
    resource: { checksToken: false },
  });
  expect(asked.filter((it) => it.endsWith('] '))).toHaveLength(12);
  expect(asked.join('')).toContain('"often"');
});

it('answers nothing where the person has had enough', async () => {
  expect(await interview(answering(['3']).io)).toBeNull();
});
