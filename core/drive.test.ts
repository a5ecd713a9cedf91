import { describe, expect, it } from 'vitest';
import type { Token } from './index.js';
import { chanceFor, drive, type Environment, initialState, type LockEvent, localTime, SOUND_POLICY } from './index.js';

const chance = (attempt: number) => ({ token: `t${attempt}` as Token, jitterPpm: 500_000 });
const acquire: LockEvent = { type: 'acquire', now: localTime(7), nodes: 3, ttlMs: 1000, chance: chance(0) };

function drivenLock() {
  const told: string[] = [];
  const lock = { state: initialState() };
  const environment: Environment<typeof lock> = {
    policy: SOUND_POLICY,
    draw: (of, attempt) => {
      expect(of).toBe(lock);
      return chance(attempt);
    },
    send: (_, to, { operation }, now) => told.push(`${operation} to ${to} at ${now}`),
    arm: (_, timer, at, now) => told.push(`arm ${timer} at ${at - now}`),
    cancel: (_, timer) => told.push(`cancel ${timer}`),
    report: (_, { type }) => told.push(type),
  };
  return { told, lock, environment };
}

describe('a driven lock', () => {
  it('has each effect carried out by its environment, in order, on the state that it keeps', () => {
    const { told, lock, environment } = drivenLock();
    drive(environment, lock, acquire);
    expect(told).toEqual(['acquire to 7 at 7', 'arm attempt at 50000']);
    drive(environment, lock, { type: 'release', now: localTime(9) });
    expect(told.slice(2)).toEqual(['cancel attempt', 'release to 7 at 9', 'failed']);
    expect(lock.state.phase).toBe('failed');
  });

  it('keeps its effects apart from those of a lock that is driven while they are carried out', () => {
    const [outer, inner] = [drivenLock(), drivenLock()];
    const send: Environment<typeof outer.lock>['send'] = (lock, to, command, now) => {
      outer.environment.send(lock, to, command, now);
      drive(inner.environment, inner.lock, { ...acquire, nodes: 5, now: localTime(9) });
    };
    const own = ['acquire to 7 at 7', 'arm attempt at 50000'];
    for (const told of [own, [...own, ...own]]) {
      drive({ ...outer.environment, send }, drivenLock().lock, acquire);
      expect(outer.told).toEqual(told);
    }
    expect(inner.told).toEqual(['acquire to 31 at 9', 'arm attempt at 50000']);
  });

  it('is driven on after an environment that failed', () => {
    const { told, lock, environment } = drivenLock();
    const fails = () => {
      throw new Error('no way to send');
    };
    expect(() => drive({ ...environment, send: fails }, lock, acquire)).toThrow('no way to send');
    drive(environment, lock, { type: 'release', now: localTime(9) });
    expect(told).toEqual(['cancel attempt', 'release to 7 at 9', 'failed']);
  });

  it('is given chance for the next attempt where a timer may begin one', () => {
    const { lock, environment } = drivenLock();
    drive(environment, lock, acquire);
    expect(chanceFor(environment, lock, 'retry')).toEqual(chance(1));
    expect(chanceFor(environment, lock, 'expiry')).toBeNull();
  });
});
