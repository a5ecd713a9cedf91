import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import { RandomStreams } from '../sim/index.js';
import { lockFactoryOf } from './lock-factory.js';
import { replayLibraries } from './run.js';
import { withstood } from './search/fault-classes.js';
import { drawLibraryRun } from './search/search.js';

const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const STAY = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], 9000) end return 0";
const SHA = createHash('sha1').update(STAY).digest('hex');

it('makes the same run twice of a client that sends a script for the first time late in its lock', async () => {
  const subject = await lockFactoryOf(
    'late',
    ({ nodes: [node] }) => ({
      async acquire(key: string) {
        const token = String(Math.random());
        if ((await node.set(key, token, 'PX', 9_000, 'NX')) !== 'OK') return null;
        const timer = setInterval(async () => {
          await node
            .evalsha(SHA, 1, key, token)
            .catch(() => node.eval(STAY, 1, key, token))
            .catch(() => {});
        }, 3_000);
        return {
          isHeld: () => true,
          release: () => {
            clearInterval(timer);
            return node.eval(UNLOCK, 1, key, token);
          },
        };
      },
    }),
    undefined,
    { nodes: 1 },
  );
  const [small] = withstood(false);
  if (small === undefined) throw new Error('no class of faults');
  const calm = { ...small, faultModel: { ...small.faultModel, nodes: 1, ttlsMs: [9_000] as [number] } };
  for (let number = 0; number < 3; number++) {
    const { run, schedule } = await drawLibraryRun(subject, calm, new RandomStreams('late'), number);
    expect((await replayLibraries(subject, schedule)).run.hash).toBe(run.hash);
  }
});
