import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { Redis, type RedisOptions } from 'ioredis';
import { expect, it } from 'vitest';
import { provision } from '../real/provisioner/index.js';
import { canRunOnRedis } from '../real/testing/can-run.js';

/** Lets everything through, except for the reply to the first EXEC: it calls `meanwhile`, and closes the connection. */
function withholding(port: number, meanwhile: () => Promise<unknown>): Promise<Server> {
  let isOver = false;
  const proxy = createServer((client) => {
    const server = connect(port, '127.0.0.1');
    let isExec = false;
    client.on('data', (bytes) => {
      isExec ||= /exec/i.test(bytes.toString());
      server.write(bytes);
    });
    server.on('data', (bytes) => {
      if (!isExec || isOver) return void client.write(bytes);
      isOver = true;
      void meanwhile().then(() => client.destroy());
    });
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const)
      one.on('error', () => {}).on('close', () => other.destroy());
  });
  return new Promise((resolve) => proxy.listen(0, '127.0.0.1', () => resolve(proxy)));
}

/** The key after a release by WATCH whose connection is lost when another client takes the lock. */
async function keyAfter(options: RedisOptions): Promise<string | null> {
  await using provided = await provision({ nodes: 1, sources: ['processes'] });
  const port = Number(new URL(provided.nodes[0]?.url ?? '').port);
  const other = new Redis(port);
  const proxy = await withholding(port, () => other.set('lock', 'of the other one', 'PX', 60_000, 'NX'));
  const redis = new Redis((proxy.address() as AddressInfo).port);
  try {
    await redis.set('lock', 'own', 'PX', 60_000, 'NX');
    const own = redis.duplicate(options);
    await own.watch('lock');
    expect(await own.get('lock')).toBe('own');
    await own.multi().del('lock').exec().catch(String);
    own.disconnect();
    return await other.get('lock');
  } finally {
    redis.disconnect();
    other.disconnect();
    proxy.close();
  }
}

it.skipIf(!canRunOnRedis('a repeated transaction', 'processes')).each([
  [{}, null],
  [{ maxRetriesPerRequest: 0 }, 'of the other one'],
])('ioredis repeats a transaction without its WATCH, unless it may repeat nothing: %j', async (options, key) => {
  expect(await keyAfter(options)).toBe(key);
});
