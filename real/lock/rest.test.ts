import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { restTransport } from './rest.js';
import type { RedlockSession } from './session.js';

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

interface Asked {
  readonly words: readonly string[];
  answer(): void;
}

/** A session with a server that answers what it is asked, but for PING, when the test says so. */
async function setUp(): Promise<{ asked: Asked[]; session: RedlockSession }> {
  const asked: Asked[] = [];
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += String(chunk);
    const words = JSON.parse(text) as string[];
    const answer = () => void response.end('{"result":"OK"}');
    if (words[0] === 'PING') answer();
    else asked.push({ words, answer });
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const session = await new Promise<RedlockSession>((resolve, reject) => {
    const opened = restTransport({ url, token: 'any' }).openSession({ onReady: () => resolve(opened), onEnd: reject });
  });
  return { asked, session };
}

test.each([
  [['SET', 'k', 't', 'IFEQ', 't', 'PX', '1000']],
  [['GET', 'k']],
  [['PTTL', 'k']],
  [['EVALSHA', 'sha', '1', 'k', 't']],
  [['EVAL', 'lua', '2', 'k', 'l', 't']],
  [['DELEX', 'k', 'IFEQ', 't']],
  [['DELIFEQ', 'k', 't']],
])('%j waits for the answer to what was sent about its key before', async (words) => {
  const { asked, session } = await setUp();
  const [first, second] = [session.send(['SET', 'k', 't', 'PX', '1000', 'NX']), session.send(words)];
  const other = session.send(['SET', 'other', 't', 'PX', '1000', 'NX']);
  await expect.poll(() => asked.map(({ words: [, key] }) => key).sort()).toEqual(['k', 'other']);
  for (const { answer } of asked) answer();
  await Promise.all([first, other]);
  await expect.poll(() => asked[2]?.words).toEqual(words);
  asked[2]?.answer();
  expect(await second).toBe('OK');
  session.close();
});
