import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;

const PENDING = '{refunds}:pending';
const TAKEN = '{refunds}:taken';
const LOCK_TTL_MS = 60_000;
const WORK_MS = 35_000;
const RECLAIM_EVERY_MS = 15_000;
const lockKeyOf = (orderId: string) => `{refunds}:order:${orderId}:lock`;

const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
const PUT_BACK = `
if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 0 then return 0 end
redis.call('LPUSH', KEYS[2], ARGV[1])
return 1`;
// An item whose order nobody has locked was left behind by a worker that died. (Or it was taken just
// now: then the lock lets one worker at it, and the refund's status makes the other one drop it.)
const RECLAIM = `
if redis.call('EXISTS', KEYS[3]) == 1 then return 0 end
if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 0 then return 0 end
redis.call('RPUSH', KEYS[2], ARGV[1])
return 1`;

export type Refund = { id: string; orderId: string; cents: number };
type Status = 'reserved' | 'done' | 'rejected';

export interface OrderStore {
  load(orderId: string, signal: AbortSignal): Promise<{ paidCents: number; refunds: Array<Refund & { status: Status }> }>;
  /** Upsert by refund id. */
  putRefund(refund: Refund, status: Status, signal: AbortSignal): Promise<void>;
}

// Queue items read order/refund/cents; ids are uuids.
function decode(item: string): Refund {
  const [orderId, id, cents] = item.split('/');
  return { id, orderId, cents: Number(cents) };
}

export async function enqueueRefund(client: Client, { id, orderId, cents }: Refund): Promise<void> {
  await client.lPush(PENDING, `${orderId}/${id}/${cents}`);
}

export class RefundConsumer {
  private reclaimAt = 0;
  private readonly blocking: Client;

  constructor(private readonly client: Client, private readonly orders: OrderStore) {
    this.blocking = client.duplicate() as Client;
    this.blocking.on('error', console.warn);
  }

  async run(stop: AbortSignal): Promise<void> {
    await this.blocking.connect();
    while (!stop.aborted) {
      try {
        if (performance.now() >= this.reclaimAt) await this.reclaim();
        const item = await this.blocking.blMove(PENDING, TAKEN, 'RIGHT', 'LEFT', 5);
        if (item !== null) await this.handle(item);
      } catch (err) {
        console.error('refund consumer', err);
        await sleep(1_000);
      }
    }
    await this.blocking.quit();
  }

  private async handle(item: string): Promise<void> {
    const refund = decode(item);
    const lockKey = lockKeyOf(refund.orderId);
    const token = randomUUID();
    const signal = AbortSignal.timeout(WORK_MS);
    if ((await this.client.set(lockKey, token, { NX: true, PX: LOCK_TTL_MS })) !== 'OK') {
      await sleep(250);
      return this.putBack(item);
    }
    try {
      await this.refund(refund, signal);
      await this.client.lRem(TAKEN, 1, item);
    } catch (err) {
      console.error('refund failed', refund.id, err);
      await sleep(2_000);
      await this.putBack(item);
    } finally {
      await this.client.eval(RELEASE, { keys: [lockKey], arguments: [token] }).catch((err) => console.warn('unlock', err));
    }
  }

  private async refund(refund: Refund, signal: AbortSignal): Promise<void> {
    const { paidCents, refunds } = await this.orders.load(refund.orderId, signal);
    const mine = refunds.find((r) => r.id === refund.id);
    if (mine && mine.status !== 'reserved') return;
    const others = refunds.filter((r) => r.id !== refund.id && r.status !== 'rejected');
    const wanted = others.reduce((sum, r) => sum + r.cents, refund.cents);
    if (!mine && wanted > paidCents) return this.orders.putRefund(refund, 'rejected', signal);

    if (!mine) await this.orders.putRefund(refund, 'reserved', signal);
    const res = await fetch(`${process.env.PAYMENTS_URL}/refunds`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': refund.id },
      body: JSON.stringify(refund), signal,
    });
    if (!res.ok) throw new Error(`payments answered ${res.status}`);
    await this.orders.putRefund(refund, 'done', signal);
  }

  private async putBack(item: string): Promise<void> {
    await this.client.eval(PUT_BACK, { keys: [TAKEN, PENDING], arguments: [item] });
  }

  private async reclaim(): Promise<void> {
    for (const item of await this.client.lRange(TAKEN, 0, -1)) {
      const lockKey = lockKeyOf(decode(item).orderId);
      await this.client.eval(RECLAIM, { keys: [TAKEN, PENDING, lockKey], arguments: [item] });
    }
    this.reclaimAt = performance.now() + RECLAIM_EVERY_MS;
  }
}
