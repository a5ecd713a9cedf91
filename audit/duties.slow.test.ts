import { expect, it } from 'vitest';
import { idsOf } from './testing/audited.js';

const SCRIPTS = `
const RENEW = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";
const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";`;
const CHECKED = 'await this.redis.eval(RENEW, 1, this.key, this.id, TTL) === 1';
const UNCHECKED = "await this.redis.set(this.key, this.id, 'PX', TTL, 'XX') === 'OK'";

/** A leader that runs what it was made with, for as long as its signal is not aborted. */
const elector = (renews: string, refused: string): string => `import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
${SCRIPTS}
const TTL = 12_000;
interface Options { key: string; duty: (signal: AbortSignal) => Promise<void> }
export class Elector {
  private readonly id = randomUUID();
  private readonly quit = new AbortController();
  private running?: Promise<void>;
  private readonly key: string;
  constructor(private readonly redis: Redis, private readonly options: Options) { this.key = options.key; }
  start(): void { this.running ??= this.campaign(); }
  async stop(): Promise<void> { this.quit.abort(); await this.running; }
  private async campaign(): Promise<void> {
    while (!this.quit.signal.aborted) {
      const sentAt = performance.now();
      const reply = await this.redis.set(this.key, this.id, 'PX', TTL, 'NX').catch(() => null);
      if (reply === 'OK') await this.serve(sentAt);
      await sleep(TTL / 4, undefined, { signal: this.quit.signal }).catch(() => {});
    }
  }
  private async serve(sentAt: number): Promise<void> {
    const term = new AbortController();
    const signal = AbortSignal.any([term.signal, this.quit.signal]);
    let until = sentAt + TTL * 0.75;
    const guard = setInterval(() => { if (performance.now() >= until) term.abort(); }, 250);
    const renewals = (async () => {
      while (!signal.aborted) {
        await sleep(TTL / 6, undefined, { signal }).catch(() => {});
        if (signal.aborted) return;
        const at = performance.now();
        try {
          if (${renews}) until = at + TTL * 0.75;
          else { ${refused} }
        } catch { /* the guard decides */ }
      }
    })();
    try {
      await this.options.duty(signal);
    } finally {
      term.abort();
      clearInterval(guard);
      await renewals;
      await this.redis.eval(RELEASE, 1, this.key, this.id).catch(() => {});
    }
  }
}`;

it('lets a leader run what it was made with until its signal is aborted', async () => {
  expect(await idsOf(elector(CHECKED, 'term.abort();'))).toEqual([]);
  expect(await idsOf(elector(UNCHECKED, 'term.abort();'))).toEqual(['revives-lock']);
});

it('tries what a file begins by itself as it is loaded, and nothing of it beside that', async () => {
  const begun = `${elector(CHECKED, 'term.abort();')}
const elector = new Elector(new Redis(process.env.REDIS_URL!), {
  key: 'leader:feed',
  duty: async (signal) => {
    while (!signal.aborted) {
      await fetch('http://feed/poll', { method: 'POST', signal }).catch(() => {});
      await sleep(1_000, undefined, { signal }).catch(() => {});
    }
  },
});
elector.start();
export { elector };`;
  expect(await idsOf(begun)).toEqual([]);
});

/** A leader that is asked to run until a signal ends it, and that no clock tells that its lease is over. */
const election = (renews: string): string =>
  elector(renews, 'term.abort();')
    .replace(
      'start(): void { this.running ??= this.campaign(); }',
      'async run(stop: AbortSignal): Promise<void> { stop.addEventListener("abort", () => this.quit.abort()); await this.campaign(); }',
    )
    .replace('async stop(): Promise<void> { this.quit.abort(); await this.running; }', '')
    .replace(/const guard = .*/, 'const guard = undefined;')
    .replaceAll('duty', 'onElected');

it('finds a leader that overwrites the key of the next one, where it campaigns until it is told to stop', async () => {
  expect(await idsOf(election(UNCHECKED))).toEqual(['blind-extension']);
  expect(await idsOf(election(CHECKED))).not.toContain('blind-extension');
});
