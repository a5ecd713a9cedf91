import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;

const TTL_MS = 12_000;
const RENEW_EVERY_MS = 3_000;
const STEP_DOWN_BEFORE_MS = 3_000;

const RENEW = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;
const RESIGN = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
const SET_IF_LEADER = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[2])
return 1`;

export interface Term {
  readonly signal: AbortSignal;
  /** Writes a key in the rollout's slot, only while this term is still the current one. */
  write(key: string, value: string): Promise<void>;
}

export class RolloutLeader {
  constructor(private readonly client: Client, private readonly rolloutId: string) {}

  private get key(): string {
    return `{rollout:${this.rolloutId}}:leader`;
  }

  /** Campaigns until elected, leads, and campaigns again after a lost term. Returns when duty does. */
  async run(duty: (term: Term) => Promise<void>, stop: AbortSignal): Promise<void> {
    while (!stop.aborted) {
      const token = randomUUID();
      const askedAt = performance.now();
      const reply = await this.client.set(this.key, token, { NX: true, PX: TTL_MS }).catch((err) => {
        console.warn('campaign failed', err);
        return null;
      });
      if (reply === 'OK' && (await this.lead(token, askedAt, duty, stop))) return;
      await sleep(RENEW_EVERY_MS + Math.random() * 1_000, undefined, { signal: stop }).catch(() => undefined);
    }
  }

  private async lead(token: string, askedAt: number, duty: (term: Term) => Promise<void>, stop: AbortSignal): Promise<boolean> {
    const lost = new AbortController();
    const over = new AbortController();
    let stepDown: NodeJS.Timeout | undefined;
    const leadUntil = (until: number) => {
      clearTimeout(stepDown);
      stepDown = setTimeout(() => lost.abort(new Error('term ran out')), Math.max(0, until - performance.now()));
    };
    leadUntil(askedAt + TTL_MS - STEP_DOWN_BEFORE_MS);
    void this.keepRenewing(token, leadUntil, lost, over.signal);

    try {
      await duty({
        signal: AbortSignal.any([lost.signal, stop]),
        write: async (key, value) => {
          const written = await this.client.eval(SET_IF_LEADER, { keys: [this.key, key], arguments: [token, value] });
          if (written !== 1) throw new Error(`no longer leading rollout ${this.rolloutId}`);
        },
      });
      return true;
    } catch (err) {
      console.error('rollout term ended', this.rolloutId, err);
      return false;
    } finally {
      over.abort();
      clearTimeout(stepDown);
      await this.client.eval(RESIGN, { keys: [this.key], arguments: [token] }).catch((err) => console.warn('resign', err));
    }
  }

  private async keepRenewing(token: string, leadUntil: (until: number) => void, lost: AbortController, over: AbortSignal) {
    for (;;) {
      await sleep(RENEW_EVERY_MS, undefined, { signal: over }).catch(() => undefined);
      if (over.aborted || lost.signal.aborted) return;
      const askedAt = performance.now();
      try {
        const kept = await this.client.eval(RENEW, { keys: [this.key], arguments: [token, String(TTL_MS)] });
        if (over.aborted || lost.signal.aborted) return;
        if (kept !== 1) return lost.abort(new Error('term was taken over'));
        leadUntil(askedAt + TTL_MS - STEP_DOWN_BEFORE_MS);
      } catch (err) {
        console.warn('renewal failed, trying again', err);
      }
    }
  }
}

export function rolloutDuty(client: Client, rolloutId: string, version: string, gatewayUrl: string) {
  return async (term: Term): Promise<void> => {
    const cursorKey = `{rollout:${rolloutId}}:cursor`;
    for (;;) {
      term.signal.throwIfAborted();
      const cursor = Number((await client.get(cursorKey)) ?? 0);
      const deviceId = await client.lIndex(`{rollout:${rolloutId}}:devices`, cursor);
      if (deviceId === null) return;

      term.signal.throwIfAborted();
      const res = await fetch(`${gatewayUrl}/devices/${deviceId}/firmware`, {
        method: 'PUT', // the gateway ignores a version the device already has
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ version }),
        signal: AbortSignal.any([term.signal, AbortSignal.timeout(30_000)]),
      });
      if (!res.ok) throw new Error(`gateway answered ${res.status} for ${deviceId}`);
      await term.write(cursorKey, String(cursor + 1));
    }
  };
}
