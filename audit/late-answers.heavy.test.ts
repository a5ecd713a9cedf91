import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { idsOfModule as idsOf } from './testing/audited.js';

/** Speaks to Redis by itself, over one connection; `late` is done with a command that has not been answered for `waitMs`. */
const socketLock = (late: string, waitMs = 700): string => `import net from 'node:net';
import { randomUUID } from 'node:crypto';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
let [socket, pending] = [null, []];
function connected() {
  if (socket !== null) return socket;
  const own = net.connect({ host: '127.0.0.1', port: 6379 });
  let rest = '';
  own.on('data', (text) => {
    const lines = (rest + text).split('\\r\\n');
    rest = lines.pop();
    for (const line of lines) pending.shift()?.done(line);
  });
  own.on('error', () => {});
  own.on('close', () => { if (socket === own) { socket = null; for (const it of pending.splice(0)) it.fail(new Error('closed')); } });
  return (socket = own);
}
const send = (...words) => new Promise((done, fail) => {
  const own = { done, fail };
  const to = connected();
  pending.push(own);
  setTimeout(() => { ${late} fail(new Error('no answer')); }, ${waitMs});
  to.write('*' + words.length + '\\r\\n' + words.map((it) => '$' + Buffer.byteLength(String(it)) + '\\r\\n' + it + '\\r\\n').join(''));
});
export async function withLock(name, ttlMs, work) {
  const token = randomUUID();
  try {
    if ((await send('SET', name, token, 'NX', 'PX', ttlMs)) !== '+OK') return false;
    await work(AbortSignal.timeout(ttlMs / 2));
    return true;
  } finally {
    await send('EVAL', UNLOCK, 1, name, token).catch(() => {});
  }
}`;

it.each([700, 2_000])(
  'finds that the answer to what has timed out after %i ms is taken for another',
  async (waitMs) => {
    const ids = await idsOf(socketLock('pending = pending.filter((it) => it !== own);', waitMs));
    expect(ids).toEqual(['answer-of-another-command']);
  },
);

it.each([
  ['drops a late answer', socketLock('')],
  ['closes the connection', socketLock('if (pending.includes(own)) to.destroy();')],
  ['waits for its answers for ever', socketLock('return;')],
])('lets pass what %s', async (_, text) => {
  await expect(idsOf(text)).resolves.toEqual([]);
});

it('lets pass what has a connection for each command', async () => {
  const text = readFileSync(new URL('../test/wild/fifty-first/resp-lock.mjs', import.meta.url), 'utf8');
  expect(await idsOf(text)).toEqual([]);
});

/** What it has given up, it does not take back: the key stays until its TTL is over, and another key is given wrongly. */
const leaving = (late: string): string =>
  socketLock(late, 400).replace(
    `  try {
    if ((await send('SET', name, token, 'NX', 'PX', ttlMs)) !== '+OK') return false;`,
    `  if ((await send('SET', name, token, 'NX', 'PX', ttlMs)) !== '+OK') return false;
  try {`,
  );
/** The same for a function that works on what it is handed. */
const seating = (late: string): string =>
  `${leaving(late)}
export async function seat(lobby, name) {
  return withLock(name, 9000, async () => { await lobby.saveRoster(await lobby.roster(name)); });
}`.replace('export async function withLock', 'async function withLock');

it.each([
  ['hands over', leaving],
  ['does its own work', seating],
])('finds that one that %s takes the late answer for another key', async (_, lock) => {
  expect(await idsOf(lock('pending = pending.filter((it) => it !== own);'))).toEqual(['answer-of-another-command']);
  expect(await idsOf(lock('if (pending.includes(own)) to.destroy();'))).toEqual([]);
});

/** The same as an object that the lock is handed, which waits for half a second where nothing else is said. */
const HANDED = `import net from 'node:net';
import { randomUUID } from 'node:crypto';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export class Wire {
  pending = [];
  rest = '';
  constructor(host, port, timeoutMs = 500) {
    this.timeoutMs = timeoutMs;
    this.socket = net.connect({ host, port });
    this.socket.on('data', (text) => {
      const lines = (this.rest + text).split('\\r\\n');
      this.rest = lines.pop();
      for (const line of lines) this.pending.shift()?.done(line);
    });
    this.socket.on('error', () => {});
  }
  send(...words) {
    return new Promise((done, fail) => {
      const own = { done, fail };
      this.pending.push(own);
      setTimeout(() => { this.pending = this.pending.filter((it) => it !== own); fail(new Error('no answer')); }, this.timeoutMs);
      this.socket.write('*' + words.length + '\\r\\n' + words.map((it) => '$' + Buffer.byteLength(String(it)) + '\\r\\n' + it + '\\r\\n').join(''));
    });
  }
}
export async function withLock(redis, name, work) {
  const token = randomUUID();
  try {
    if ((await redis.send('SET', name, token, 'NX', 'PX', 10000)) !== '+OK') return false;
    await work(AbortSignal.timeout(5000));
    return true;
  } finally {
    await redis.send('EVAL', UNLOCK, 1, name, token).catch(() => {});
  }
}`;

it('leaves the time-out of a connection that it makes to its default', async () => {
  expect(await idsOf(HANDED)).toEqual(['answer-of-another-command']);
});
