import { createRequire } from 'node:module';
import type { Redis, RedisOptions } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Command, Token } from '../../core/index.js';
import { type Provision, provision } from '../provisioner/index.js';
import { canRunOnRedis } from '../testing/can-run.js';
import { answerOf, isErrorReply, isMissingScript, loadScripts, Request } from './request.js';
import { detectFastPath } from './shortcut.js';

interface Ioredis {
  readonly Redis: new (url: string, options?: RedisOptions) => Redis;
}
const require = createRequire(import.meta.url);

const TOKEN = 'ünique' as Token;
const command = (operation: Command['operation'], token = TOKEN): Command => ({
  operation,
  attempt: 0,
  round: 0,
  token,
  ttlMs: operation === 'release' ? 0 : 60_000,
  counter: 0,
});

describe.skipIf(!canRunOnRedis('the shortcut', 'processes'))('the shortcut', () => {
  let nodes: Provision;
  const clients: Redis[] = [];

  beforeAll(async () => {
    nodes = await provision({ nodes: 1, sources: ['processes'] });
  });
  afterAll(async () => {
    for (const client of clients) client.disconnect();
    await nodes?.stop();
  });

  async function connect(library: string, options: RedisOptions = {}) {
    const { Redis }: Ioredis = require(library);
    const client = new Redis(nodes.urls[0] ?? '', { lazyConnect: true, ...options }).on('error', () => {});
    clients.push(client);
    await client.connect();
    const loaded = loadScripts(client);
    const send = await detectFastPath(client);
    await loaded;
    return { client, send };
  }

  describe.each(['ioredis', 'ioredis6'])('into %s', (library) => {
    test('carries every command, in order with those of the ordinary way, several in one turn', async () => {
      const { client, send } = await connect(library);
      const keys = [`{${library}} a`, `{${library}} b`];
      const [key = ''] = keys;
      const replies = await Promise.all([
        send?.(new Request(command('acquire'), [key]).words),
        client.get(key),
        send?.(new Request(command('acquire'), [key]).words),
        send?.(new Request(command('extend'), [key]).words),
        send?.(new Request(command('release'), [key]).words),
        client.get(key),
        send?.(new Request(command('acquire'), keys).words),
        send?.(new Request(command('release', 'another' as Token), keys).words),
        send?.(new Request(command('release'), keys).words),
      ]);
      expect([replies[1], replies[5]]).toEqual([TOKEN, null]);
      const votes = replies.filter((_, index) => index !== 1 && index !== 5).map(answerOf);
      expect(votes).toEqual(['yes', 'no', 'yes', 'yes', 'yes', 'no', 'yes']);
    });

    test('rejects with error replies, and when the connection ends', async () => {
      const { client, send } = await connect(library);
      await client.script('FLUSH');
      const missing = await send?.(new Request(command('extend'), ['k']).words).catch((reason: unknown) => reason);
      expect([isErrorReply(missing), isMissingScript(missing)]).toEqual([true, true]);
      await client.client('PAUSE', 300, 'ALL');
      const cut = send?.(new Request(command('acquire'), ['k']).words).catch((reason: unknown) => reason);
      client.disconnect();
      const lost = await cut;
      expect([lost instanceof Error, isErrorReply(lost)]).toEqual([true, false]);
    });

    test('is not taken with a key prefix, which it would leave out', async () => {
      expect((await connect(library, { keyPrefix: 'p:' })).send).toBeNull();
    });
  });

  test('is not taken where a first command does not come back', async () => {
    const { client } = await connect('ioredis');
    await client.acl('SETUSER', 'default', '-echo');
    expect(await detectFastPath(client)).toBeNull();
    await client.acl('SETUSER', 'default', '+@all');
    expect(await detectFastPath(client)).not.toBeNull();
  });
});

test('is not taken on ioredis-mock, which has no network', async () => {
  await using nodes = await provision({ nodes: 1, sources: ['mock'] });
  const client = nodes.nodes[0]?.client();
  expect(client === undefined ? undefined : await detectFastPath(client)).toBeNull();
});
