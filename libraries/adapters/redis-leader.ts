import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { MakeLock } from '../lock-under-test.js';
import { ioredisOf, require } from './connected.js';
import { LEFT_TO_THE_TTL, type Library, RETRIES, RETRY_DELAY_MS } from './library.js';

type LeaderEvent = 'elected' | 'notElected' | 'demoted' | 'error';

interface Leader {
  elect(): Promise<void>;
  stop(): Promise<void>;
  on(event: LeaderEvent, listener: (error?: unknown) => void): void;
}

type LeaderClass = new (client: unknown, ttlMs: number, waitMs: number, key: string) => Leader;

/** Who leads, as its events say. */
class Candidate {
  private readonly leader: Leader;
  isHeld = false;

  constructor(leader: Leader) {
    this.leader = leader;
  }

  /** Stands for election as often as others try. */
  elect(): Promise<Candidate | null> {
    return new Promise((resolve, reject) => {
      let left = RETRIES + 1;
      this.leader.on('elected', () => {
        this.isHeld = true;
        resolve(this);
      });
      this.leader.on('demoted', () => {
        this.isHeld = false;
      });
      this.leader.on('notElected', () => {
        left--;
        if (left === 0) this.leader.stop().then(() => resolve(null), reject);
      });
      this.leader.on('error', reject);
      this.leader.elect().catch(reject);
    });
  }

  release(): Promise<void> {
    return this.leader.stop();
  }
}

async function load(): Promise<MakeLock> {
  const { SafeRedisLeader }: { SafeRedisLeader: LeaderClass } = require('ts-safe-redis-leader');
  const scripts = join(dirname(require.resolve('ts-safe-redis-leader')), '../luas');
  const textOf = (name: string): string => readFileSync(join(scripts, `atomic${name}.lua`), 'utf8');
  const [expire, remove] = [textOf('GetIsEqualSetPExpire'), textOf('GetIsEqualDelete')];
  return ({ addresses: [address] }) => {
    const client = ioredisOf(address);
    // It would read them from these files as it first needs them, which takes time that is not simulated.
    client.defineCommand('getIsEqualSetPExpire', { numberOfKeys: 1, lua: expire });
    client.defineCommand('getIsEqualDelete', { numberOfKeys: 1, lua: remove });
    return {
      acquire: (resource, ttlMs) => new Candidate(new SafeRedisLeader(client, ttlMs, RETRY_DELAY_MS, resource)).elect(),
    };
  };
}

/** The leader of ts-safe-redis-leader, on ioredis 5. */
export const REDIS_LEADER: Library = {
  id: 'redis-leader',
  package: 'ts-safe-redis-leader',
  version: '0.0.5',
  client: 'ioredis@5.11.1',
  belief: 'from "elected", kept alive by a renewal every half of the TTL, until "demoted" or stop()',
  extendsItself: true,
  keyOf: (it) => `leader: ${createHash('sha1').update(it).digest('hex')}`,
  nodes: 1,
  notPromised: LEFT_TO_THE_TTL,
  load,
};
