import { createClient, defineScript } from 'redis';
import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';

const LEADER_KEY = '{autoscaler}:leader';
const EPOCH_KEY = '{autoscaler}:epoch';
const TTL_MS = 15_000;
const SAFETY_MS = 3_000;
const ME = randomUUID();

const client = createClient({
  url: process.env.REDIS_URL,
  disableOfflineQueue: true,
  socket: { socketTimeout: 10_000 },
  scripts: {
    campaign: defineScript({
      NUMBER_OF_KEYS: 2,
      SCRIPT: `
        if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
          return redis.call('INCR', KEYS[2])
        end
        return 0`,
      parseCommand(parser, leaderKey: string, epochKey: string, id: string, ttl: number) {
        parser.pushKey(leaderKey);
        parser.pushKey(epochKey);
        parser.push(id, ttl.toString());
      },
      transformReply: (reply: number) => reply,
    }),
    renew: defineScript({
      NUMBER_OF_KEYS: 1,
      SCRIPT: `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`,
      parseCommand(parser, leaderKey: string, id: string, ttl: number) {
        parser.pushKey(leaderKey);
        parser.push(id, ttl.toString());
      },
      transformReply: (reply: number) => reply === 1,
    }),
    resign: defineScript({
      NUMBER_OF_KEYS: 1,
      SCRIPT: `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`,
      parseCommand(parser, leaderKey: string, id: string) {
        parser.pushKey(leaderKey);
        parser.push(id);
      },
      transformReply: (reply: number) => reply === 1,
    }),
  },
});
client.on('error', (err) => console.error('redis', err.message));

interface Term { epoch: number; abort: AbortController; timer: NodeJS.Timeout; work: Promise<void> }
let term: Term | null = null;

function stepDown(reason: string): void {
  if (!term) return;
  console.log(`epoch ${term.epoch}: stepping down, ${reason}`);
  clearTimeout(term.timer);
  term.abort.abort();
  term = null;
}

async function tick(): Promise<void> {
  const sentAt = performance.now();
  const left = () => sentAt + TTL_MS - SAFETY_MS - performance.now();
  const current = term;
  if (!current) {
    const epoch = await client.campaign(LEADER_KEY, EPOCH_KEY, ME, TTL_MS);
    if (epoch === 0 || left() <= 0) return;
    const abort = new AbortController();
    const timer = setTimeout(() => stepDown('lease ran out'), left());
    term = { epoch, abort, timer, work: reconcileLoop(epoch, abort.signal) };
    return;
  }
  const renewed = await client.renew(LEADER_KEY, ME, TTL_MS);
  if (term !== current) return;
  if (!renewed) return stepDown('lease is gone');
  clearTimeout(current.timer);
  current.timer = setTimeout(() => stepDown('lease ran out'), Math.max(0, left()));
}

// The control plane answers 409 to an epoch lower than the highest it has seen.
async function reconcileLoop(epoch: number, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      const plan = await fetch(`${process.env.CONTROL_PLANE}/plan`, { signal }).then((r) => r.json());
      for (const { service, replicas } of plan as Array<{ service: string; replicas: number }>) {
        const res = await fetch(`${process.env.CONTROL_PLANE}/services/${service}/replicas`, {
          method: 'PUT', signal, headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ replicas, epoch }),
        });
        if (!res.ok) throw new Error(`${service}: HTTP ${res.status}`);
      }
    } catch (err) {
      if (!signal.aborted) console.error('reconcile', err);
    }
    await sleep(5_000, undefined, { signal }).catch(() => undefined);
  }
}

export async function main(stop: AbortSignal): Promise<void> {
  await client.connect();
  while (!stop.aborted) {
    await tick().catch((err) => console.error('election', err));
    await sleep(TTL_MS / 5, undefined, { signal: stop }).catch(() => undefined);
  }
  const last = term;
  stepDown('shutdown');
  await last?.work;
  await client.resign(LEADER_KEY, ME).catch(() => undefined);
  await client.close();
}
