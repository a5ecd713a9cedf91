import { expect, it } from 'vitest';
import { clientFile, givesClient, settingsFile, tokensFile } from './neighbours.js';

it('has a client by each name by which it is imported', () => {
  const text = "import { redis, getRedis as client, PREFIX } from '../lib/redis';\nredis.set('a', 'b', 'PX', 1, 'NX');";
  const file = clientFile('../lib/redis', text);
  expect(file).toContain("import Redis from 'ioredis';");
  expect(file).toContain('export const redis = client;');
  expect(file).toContain('export const getRedis = () => client;');
  expect(file).toContain("export const PREFIX = 'a';");
  expect(file).toContain('export default client;');
});

it('has the client whose commands the file uses, and connects it where the file does not', () => {
  const text = "const connect = require('./redis-client');\nconnect().set('a', 'b', { NX: true, PX: 1 });";
  expect(clientFile('./redis-client', text)).toContain('createClient');
  expect(clientFile('./redis-client', text)).toContain('client.connect()');
  expect(clientFile('./redis-client', `${text}\nclient.connect();`)).not.toContain('client.connect()');
});

it('gives what a function by that name gives', () => {
  expect(clientFile('./redis', "import getClient from './redis';")).toContain('export default () => client;');
});

it('has a client that is named after a lock, and a function that gives a list of clients', () => {
  const text = "import { lockRedis, redisClients } from './redis';\nconst redlock = new Redlock(redisClients());";
  expect(clientFile('./redis', text)).toContain('export const lockRedis = client;');
  expect(clientFile('./redis', text)).toContain('export const redisClients = () => [client];');
});

it('stands for no lock, and for no other file', () => {
  expect(clientFile('./redis', "import { redis, withLock } from './redis';")).toBeNull();
  expect(clientFile('./redis-lock', "import { redis } from './redis-lock';")).toBeNull();
  expect(clientFile('./orders', "import { redis } from './orders';")).toBeNull();
  expect(givesClient('ioredis')).toBe(false);
  expect(givesClient('@/lib/redis')).toBe(true);
});

it('has a client by its name in a file of connections, and what else is imported as of any other file', () => {
  const file = clientFile('./db', "const { redis, pool } = require('./db');");
  expect(file).toContain('export const redis = client;');
  expect(file).toContain('export const pool = others.pool;');
  expect(clientFile('./db', "import { pool } from './db';")).toBeNull();
  expect(clientFile('./db', "import { redis, withLock } from './db';")).toBeNull();
});

it('stands for names by which something is given, and that nothing else is done with', () => {
  const imported = "import { REDIS, POOL } from '../tokens';\n";
  const text = `${imported}class Jobs { constructor(@Inject(REDIS) redis: Redis, @Inject(POOL) pool: Pool) {} }`;
  expect(tokensFile('../tokens', text)).toBe("export const REDIS = 'REDIS';\nexport const POOL = 'POOL';\n");
  expect(tokensFile('../tokens', `${text}\nredis.set(POOL, 'a');`)).toBeNull();
  expect(tokensFile('../tokens', `${text}\nconst all = { ...POOL };`)).toBeNull();
  expect(tokensFile('../tokens', "import { nextToken } from '../tokens';\nredis.set('a', nextToken());")).toBeNull();
  expect(tokensFile('@our/tokens', text.replace('../tokens', '@our/tokens'))).toBeNull();
});

it('leaves out a setting that a lock may depend on where the file has a value of its own for it', () => {
  const of = (text: string): string | null =>
    settingsFile('../config', `import { config, TTL } from '../config';\n${text}`);
  expect(of('take(config.lock.ttl || 5_000, config.size, TTL ?? 1);')).toContain(
    'export const config = { lock: { ttl: undefined }, size: 100 };\nexport const TTL = undefined;',
  );
  expect(of('take(config.lock.ttl ?? 5_000, config.lock.ttl, TTL ?? 1);')).toBeNull();
  expect(of('take(config.lock.ttl ?? 5_000, TTL);')).toBeNull();
});

it('gives servers to settings that are named so, and of which clients are made', () => {
  const of = (text: string): string | null => settingsFile('./settings', `import { all } from './settings';\n${text}`);
  expect(of('new Redis(all.lockRedisUrl);')).toContain('{ lockRedisUrl: process.env.REDIS_URL }');
  expect(of('all.lockNodes.map((url) => new Redis(url, {}));')).toContain("lockNodes: ['redis://n0:6379', 'redis://n1");
  expect(of('all.lockNodes.map((url) => connect(url));')).toBeNull();
});
