import { expect, it } from 'vitest';
import { environmentFor } from './environment.js';
import { readSource } from './shapes.js';

const from = (text: string): Record<string, string> => environmentFor([readSource(text, 'lock.ts')], 1);

it.each([
  ['const LIMIT = process.env.MAX_EXPORTS; const LUA = "redis.call(\'ZCARD\', KEYS[1])";', { MAX_EXPORTS: '1' }],
  ['const { SLOTS } = process.env; redis.incr(key);', { SLOTS: '1' }],
  // What bounds something else is left as it is.
  ['const all = process.env.MAX_RETRIES; redis.incr(key);', {}],
  ["const all = process.env.MAX_EXPORTS; redis.set(key, token, 'NX');", {}],
])('lets one hold where %s says how many may', (text, expected) => {
  const limits = Object.entries(from(text)).filter(([name]) => /MAX|SLOTS/.test(name));
  expect(Object.fromEntries(limits)).toEqual(expected);
});

it.each([
  ['await fetch(process.env.RATES_URL);', { RATES_URL: 'https://other.example' }],
  ['await fetch(process.env.RATES_URL, process.env.RATES_TTL);', { RATES_URL: 'https://other.example' }],
  // What connects by itself is refused with the address that it uses.
  ['new Pool({ connectionString: process.env.DATABASE_URL });', {}],
])('says where another server is in %s, where fetch asks it', (text, expected) => {
  const others = Object.entries(from(text)).filter(([name]) => /RATES|DATABASE/.test(name));
  expect(Object.fromEntries(others)).toEqual(expected);
});

it('lists all servers where a file splits a variable at commas', () => {
  const text = "process.env.LOCK_REDIS!.split(',').map((it) => new Redis(it)); new Redis(process.env.CACHE_REDIS);";
  const values = environmentFor([readSource(text, 'lock.ts')], 2);
  expect(values).toMatchObject({ LOCK_REDIS: 'redis://n0:6379,redis://n1:6379', CACHE_REDIS: 'redis://n0:6379' });
});

it.each([
  ['const url = process.env.DATABASE_URL;\nif (!url) process.exit(64);', { DATABASE_URL: 'https://other.example/a' }],
  ["if (!process.env.APP_NAME) throw new Error('no name');", { APP_NAME: 'a' }],
  [
    "const env = (it) => process.env[it] ?? fail(it);\nconst db = env('DATABASE_URL');",
    { DATABASE_URL: 'https://other.example/a' },
  ],
  // A text is no number.
  ['const ttl = process.env.APP_TTL;\nif (!ttl) process.exit(64);', {}],
  ['const url = process.env.DATABASE_URL;\nconnect(url);', {}],
])('gives what has to be there in %s', (text, expected) => {
  const required = Object.entries(from(text)).filter(([name]) => /DATABASE|APP/.test(name));
  expect(Object.fromEntries(required)).toEqual(expected);
});

it('finds the servers of Valkey, and those whose names a file puts together', () => {
  expect(from('new Redis(process.env.VALKEY_URL);')).toMatchObject({ VALKEY_URL: 'redis://n0:6379' });
  expect(from('new Redis({ host, password: process.env.REDIS_KEY });')).not.toHaveProperty('REDIS_KEY');
  // biome-ignore lint/suspicious/noTemplateCurlyInString: as it is written in the file.
  const text = "const all = ['eu', 'us'].map((it) => new Redis(process.env[`REDIS_${it.toUpperCase()}_URL`]));";
  expect(from(text)).toMatchObject({ REDIS_EU_URL: 'redis://n0:6379', REDIS_US_URL: 'redis://n1:6379' });
  const listed = "const all = ['REDIS_A', 'REDIS_B'].map((name) => new Redis(process.env[name]));";
  expect(from(listed)).toMatchObject({ REDIS_A: 'redis://n0:6379', REDIS_B: 'redis://n1:6379' });
});

it('has what a file takes from the environment by its name, and cannot do without', () => {
  const text =
    "const { REPORT_FILE, DATABASE_URL: url, LOG_LEVEL } = process.env; if (!REPORT_FILE || !url) throw new Error('missing');";
  const values = from(text);
  expect([values.REPORT_FILE, values.DATABASE_URL, values.LOG_LEVEL]).toEqual([
    'a',
    'https://other.example/a',
    undefined,
  ]);
});
