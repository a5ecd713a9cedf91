import { expect, it } from 'vitest';
import { idsOf } from './testing/audited.js';

/** Extends its lock while it encodes: `lost` is done where that has failed, `before` before each step, `given` goes to each. */
const encoding = (lost: string, before: string, given = ''): string => `import { Redis } from 'ioredis';
interface Job { id: string; data: { asset: string; profiles: string[] } }
const SAME = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end ";
export class Encoder {
  private readonly redis: Redis;
  private readonly encode: (asset: string, profile: string, given?: object) => Promise<string>;
  constructor(deps: { redis?: Redis; encode: (asset: string, profile: string, given?: object) => Promise<string> }) {
    this.redis = deps.redis ?? new Redis();
    this.encode = deps.encode;
  }
  async process(job: Job): Promise<string[]> {
    const [key, token, ended] = ['encode:' + job.data.asset, String(Math.random()), new AbortController()];
    if ((await this.redis.set(key, token, 'PX', 9000, 'NX')) !== 'OK') return [];
    const timer = setInterval(async () => {
      const is = await this.redis.eval(SAME + "return redis.call('pexpire', KEYS[1], 9000)", 1, key, token).catch(() => 0);
      if (is === 0) { clearInterval(timer); ${lost} }
    }, 3000);
    const files: string[] = [];
    try {
      for (const profile of job.data.profiles) {
        ${before}
        files.push(await this.encode(job.data.asset, profile${given}));
      }
      return files;
    } finally {
      clearInterval(timer);
      await this.redis.eval(SAME + "return redis.call('del', KEYS[1])", 1, key, token);
    }
  }
}`;

it('finds work that goes on with its next step where the lock is lost', async () => {
  await expect(idsOf(encoding("console.warn('lost')", ''))).resolves.toEqual(['silent-loss']);
});

it.each([
  ['looks before each step', encoding('ended.abort()', 'ended.signal.throwIfAborted();')],
  ['stops before the next step', encoding('ended.abort()', 'if (ended.signal.aborted) break;')],
  ['hands its steps a signal', encoding('ended.abort()', '', ', { signal: ended.signal }')],
])('lets work pass that %s', async (_, text) => {
  await expect(idsOf(text)).resolves.toEqual([]);
});

it('finds work under a lock of redlock that does not look at its signal', async () => {
  const paying = (given: string, before: string, first = ''): string => `import { Redis } from 'ioredis';
import Redlock from 'redlock5';
const redlock = new Redlock([new Redis({ maxRetriesPerRequest: 1 })], { retryCount: 3, retryDelay: 400 });
redlock.on('error', () => {});
interface Bank { version(): Promise<string>; open(month: string): Promise<string[]>; transfer(id: string): Promise<void> }
export async function payAll(month: string, bank: Bank): Promise<void> {
  await redlock.using(['payouts:' + month], 20_000, { automaticExtensionThreshold: 8_000 }, async (${given}) => {
    await bank.version();
    ${first}
    for (const id of await bank.open(month)) { ${before} await bank.transfer(id); }
  });
}`;
  await expect(idsOf(paying('', ''))).resolves.toEqual(['silent-loss']);
  await expect(idsOf(paying('signal', '', 'signal.throwIfAborted();'))).resolves.toEqual(['silent-loss']);
  await expect(idsOf(paying('signal', 'signal.throwIfAborted();'))).resolves.toEqual([]);
});

it('asks nothing of work that has one step', async () => {
  const text = encoding('', '').replace('of job.data.profiles', "of ['480p']");
  await expect(idsOf(text)).resolves.toEqual([]);
});

it('reads batch by batch until one is empty', async () => {
  const inBatches = (lost: string, before: string): string =>
    encoding(lost, before)
      .replace(
        'for (const profile of job.data.profiles) {',
        `for (;;) {
        const [profile] = await this.next(job.id);
        if (profile === undefined) break;`,
      )
      .replace(
        'constructor(deps: {',
        'private readonly next: (id: string) => Promise<string[]>;\n  constructor(deps: { next: (id: string) => Promise<string[]>;',
      )
      .replace('this.encode = ', 'this.next = deps.next;\n    this.encode = ');
  await expect(idsOf(inBatches("console.warn('lost')", ''))).resolves.toEqual(['silent-loss']);
  await expect(idsOf(inBatches('ended.abort()', 'ended.signal.throwIfAborted();'))).resolves.toEqual([]);
});
