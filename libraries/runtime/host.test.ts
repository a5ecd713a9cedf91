import nodeCrypto, { randomBytes, randomFillSync, randomInt, randomUUID, webcrypto } from 'node:crypto';
import os from 'node:os';
import { setTimeout as named } from 'node:timers';
import { setTimeout as promised, scheduler } from 'node:timers/promises';
import { promisify } from 'node:util';
import zlib from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import { drainAtOnce, drainByImmediates, inMacrotask } from './drain.js';
import { install } from './install.js';
import { as, current, type OwnedTimer, type ProcessContext } from './owner.js';
import { SimTimeout } from './timers.js';

/** A process whose clocks show what it is told, and which notes what is asked of it. */
class Fake implements ProcessContext {
  readonly name = 'c1';
  readonly pid = 7;
  readonly timers: { callback: () => void; delayMs: number; repeat: boolean; cancelled: boolean }[] = [];
  private word = 0;

  wallMs(): number {
    return 2_000_000_000_123;
  }

  monotonicUs(): number {
    return 5_250_500;
  }

  bootUs(): number {
    return 7_119_999;
  }

  setTimer(callback: () => void, delayMs: number, repeat: boolean): OwnedTimer {
    const timer = { callback, delayMs, repeat, cancelled: false };
    this.timers.push(timer);
    return {
      id: this.timers.length,
      cancel: () => {
        timer.cancelled = true;
      },
    };
  }

  timerOf(id: number): OwnedTimer | undefined {
    const timer = this.timers[id - 1];
    return (
      timer && {
        id,
        cancel: () => {
          timer.cancelled = true;
        },
      }
    );
  }

  setImmediate(callback: () => void): OwnedTimer {
    return this.setTimer(callback, 0, false);
  }

  random(): number {
    return 0.25;
  }

  refuses(what: string): Error {
    return new Error(`refused: ${what}`);
  }

  randomWord(): number {
    return ++this.word;
  }
}

beforeAll(() => install());

it('refuses a simulated process that ends the real one', () => {
  const { exit } = process;
  expect(() => as(new Fake(), () => exit(0))).toThrow('refused: calls process.exit, which would end the process');
  expect(() => as(new Fake(), () => process.kill(process.pid))).toThrow('refused: calls process.kill');
  expect(process.kill(process.pid, 0)).toBe(true);
  // Signal 0 ends nothing: it asks whether a process is there.
  expect(as(new Fake(), () => process.kill(process.pid, 0))).toBe(true);
  expect(() => as(new Fake(), () => process.kill(1, 0))).toThrow(expect.objectContaining({ code: 'ESRCH' }));
});

it('refuses it as well where a test runner has put an exit of its own in place, or taken it away', () => {
  const { exit } = process;
  try {
    process.exit = () => {
      throw new Error('what the runner says');
    };
    install();
    expect(() => as(new Fake(), () => process.exit(0))).toThrow('refused: calls process.exit, which would end');
    expect(() => process.exit(0)).toThrow('what the runner says');
  } finally {
    process.exit = exit;
  }
});

it('gives each simulated process a number and a machine of its own', () => {
  const [pid, host] = [process.pid, os.hostname()];
  expect(as(new Fake(), () => [process.pid, os.hostname(), process.env.HOSTNAME, process.env.PATH])).toEqual([
    7,
    'c1',
    'c1',
    process.env.PATH,
  ]);
  expect([process.pid, os.hostname()]).toEqual([pid, host]);
});

describe('the dispatchers', () => {
  it('show a simulated process its own clocks', () => {
    const seen = as(new Fake(), () => ({
      now: Date.now(),
      date: new Date(...[]).valueOf(),
      text: Date(),
      performance: performance.now(),
      hrtime: process.hrtime(),
      since: process.hrtime([5, 900_000_000]),
      bigint: process.hrtime.bigint(),
      uptime: process.uptime(),
      boot: os.uptime(),
    }));
    expect(seen).toEqual({
      now: 2_000_000_000_123,
      date: 2_000_000_000_123,
      text: new Date(2_000_000_000_123).toString(),
      performance: 5_250.5,
      hrtime: [5, 250_500_000],
      since: [-1, 350_500_000],
      bigint: 5_250_500_000n,
      uptime: 5.2505,
      boot: 7.11,
    });
  });

  it('equal the natives outside of it', async () => {
    expect(Math.abs(Date.now() - new Date(...[]).valueOf())).toBeLessThan(1000);
    expect(new Date(5).getTime()).toBe(5);
    expect(new Date()).toBeInstanceOf(Date);
    expect(Date.UTC(2020, 0)).toBe(1_577_836_800_000);
    class Own extends Date {}
    expect(new Own(7)).toBeInstanceOf(Own);
    expect(process.hrtime.bigint()).toBeGreaterThan(0n);
    await promised(1);
    await promisify(setTimeout)(1);
    expect(await new Promise((resolve) => setImmediate(resolve, 'x'))).toBe('x');
    expect(setTimeout(() => undefined, 1)).not.toBeInstanceOf(SimTimeout);
    expect(AbortSignal.timeout(1_000_000).aborted).toBe(false);
    expect(randomUUID()).not.toBe(randomUUID());
    expect(Math.random()).not.toBe(0.25);
  });

  it('give timers of the process, whatever the way to them', () => {
    const fake = new Fake();
    as(fake, () => {
      const timer = setTimeout(() => undefined, 20);
      expect(timer.unref().ref().hasRef()).toBe(true);
      clearTimeout(timer);
      clearTimeout(Number(setTimeout(() => undefined, 2 ** 40)));
      setInterval(() => undefined, 30).unref();
      named(() => undefined, 40);
      void promised(50);
      void promisify(setTimeout)(60);
      void scheduler.wait(70);
      AbortSignal.timeout(80);
      setTimeout(() => undefined).refresh();
    });
    const list = fake.timers.map((it) => [it.delayMs, it.repeat, it.cancelled]);
    expect(list).toEqual([
      [20, false, true],
      [1, false, true],
      [30, true, false],
      [40, false, false],
      [50, false, false],
      [60, false, false],
      [70, false, false],
      [80, false, false],
      [1, false, true],
      [1, false, false],
    ]);
  });

  it('abort what waits, and what a time-out aborts', async () => {
    const fake = new Fake();
    const controller = new AbortController();
    const [waiting, signal, other] = as(fake, () => [
      promised(50, 'late', { signal: controller.signal }),
      AbortSignal.timeout(80),
      AbortSignal.timeout(90),
    ]);
    controller.abort();
    await expect(waiting).rejects.toMatchObject({ name: 'AbortError' });
    expect(fake.timers[0]?.cancelled).toBe(true);
    for (const { callback } of fake.timers.slice(1)) callback();
    expect(signal.reason).toMatchObject({ name: 'TimeoutError' });
    expect(other.reason).not.toBe(signal.reason);
  });

  it('give a signal that times out as that of Node does', () => {
    const owner = new Fake();
    const { signal, of } = as(owner, () => {
      const signal = AbortSignal.timeout(80);
      return { signal, of: AbortSignal.any([signal, new AbortController().signal]) };
    });
    const heard: unknown[] = [];
    signal.onabort = (event) => heard.push(event.type);
    signal.addEventListener('abort', ({ target }) => heard.push(target === signal), { once: true });
    expect([signal instanceof AbortSignal, signal.constructor, signal.aborted, signal.reason]).toEqual([
      true,
      AbortSignal,
      false,
      undefined,
    ]);
    for (const { callback } of owner.timers) callback();
    expect([heard, signal.reason.name, of.reason]).toEqual([['abort', true], 'TimeoutError', signal.reason]);
    expect(() => signal.throwIfAborted()).toThrow(signal.reason);
  });

  it('draw from the stream of the process, whatever the way to it', () => {
    const draw = (): unknown[] =>
      as(new Fake(), () => [
        Math.random(),
        randomBytes(4).toString('hex'),
        randomFillSync(Buffer.alloc(5)).toString('hex'),
        randomInt(100),
        randomUUID(),
        nodeCrypto.randomUUID(),
        crypto.randomUUID(),
        Buffer.from(webcrypto.getRandomValues(new Uint8Array(3))).toString('hex'),
        Buffer.from(nodeCrypto.getRandomValues(new Uint8Array(3))).toString('hex'),
      ]);
    expect(draw()).toEqual(draw());
    expect(draw()[4]).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(new Set(draw()).size).toBe(9);
  });

  it('hash at once, as the native does', async () => {
    const hex = async (owner: ProcessContext | null): Promise<string> => {
      const digest = as(owner, () => crypto.subtle.digest({ name: 'SHA-256' }, new Uint8Array([1, 2, 3]).subarray(1)));
      return Buffer.from(await digest).toString('hex');
    };
    expect(await hex(new Fake())).toBe(await hex(null));
  });
});

describe('what Node computes in threads', () => {
  it('is told in the next turn of a process, as it is computed at once', () => {
    const owner = new Fake();
    const text = Buffer.from('not packed');
    const told: unknown[] = [];
    as(owner, () => {
      zlib.gunzip(zlib.gzipSync(text), (_, result) => told.push(String(result)));
      zlib.gunzip(text, (error) => told.push(error?.message));
      nodeCrypto.pbkdf2('a', 'b', 1, 4, 'sha256', (_, key) => told.push(key.toString('hex')));
    });
    expect(told).toEqual([]);
    for (const { callback } of owner.timers) callback();
    expect(told).toEqual([
      'not packed',
      'incorrect header check',
      nodeCrypto.pbkdf2Sync('a', 'b', 1, 4, 'sha256').toString('hex'),
    ]);
  });
});

describe('a drain', () => {
  /** Turns whose continuations note what they see. */
  function work(): { turn: () => boolean; log: string[] } {
    const log: string[] = [];
    let turns = 0;
    const fake = new Fake();
    const turn = (): boolean => {
      log.push(`turn ${turns}`);
      if (++turns > 3) return false;
      current.owner = fake;
      const number = turns;
      void (async () => {
        for (let i = 0; i < 20; i++) await null;
        process.nextTick(() => queueMicrotask(() => log.push(`end ${number}, owner ${current.owner?.name}`)));
      })();
      return true;
    };
    return { turn, log };
  }

  const expected = ['turn 0', 'end 1, owner c1', 'turn 1', 'end 2, owner c1', 'turn 2', 'end 3, owner c1', 'turn 3'];

  it('by immediates runs everything that follows from a turn before the next, and leaves no owner', async () => {
    const { turn, log } = work();
    await drainByImmediates(turn);
    expect(log).toEqual(expected);
    expect(current.owner).toBeNull();
  });

  it('lets nobody else meet an owner', async () => {
    const met: unknown[] = [];
    const watch = setInterval(() => met.push(current.owner), 0);
    let turns = 0;
    await drainByImmediates(() => {
      current.owner = new Fake();
      // However long the timer takes on a busy machine.
      return ++turns < 20_000 || met.length < 4;
    });
    clearInterval(watch);
    expect(met.filter((it) => it !== null)).toEqual([]);
  });

  it('at once does the same from a macrotask', async () => {
    const { turn, log } = work();
    await inMacrotask(() => drainAtOnce(turn));
    expect(log).toEqual(expected);
    expect(current.owner).toBeNull();
  });

  it('at once goes on after ticks that throw, as Node does', async () => {
    const thrown: unknown[] = [];
    const listeners = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException').on('uncaughtException', (error) => thrown.push(error));
    let turns = 0;
    const turn = (): boolean => {
      process.nextTick(() => {
        throw new Error(`tick ${turns}`);
      });
      return ++turns < 4;
    };
    await inMacrotask(() => drainAtOnce(turn));
    await new Promise((done) => setImmediate(done));
    process.removeAllListeners('uncaughtException');
    for (const it of listeners) process.on('uncaughtException', it);
    expect(thrown.map(String)).toEqual([1, 2, 3, 4].map((it) => `Error: tick ${it}`));
  });

  it('at once says so where it would do nothing', async () => {
    await Promise.resolve();
    expect(() => drainAtOnce(() => false)).toThrow('has to be called from a macrotask');
  });

  it('hands on what a turn throws', async () => {
    const turn = (): boolean => {
      throw new Error('no');
    };
    await expect(drainByImmediates(turn)).rejects.toThrow('no');
    expect(() => drainAtOnce(turn)).toThrow();
    await expect(inMacrotask(() => drainAtOnce(turn))).rejects.toThrow('no');
  });
});
