import { randomUUID } from 'node:crypto';
import type { RedisClientType } from 'redis';

interface RerouteCommand {
  parcelId: string;
  /** Numbered per parcel by the customer portal, ascending. */
  sequence: number;
  target: { street: string; zip: string; city: string };
}

interface Db {
  query(sql: string, params: unknown[], opts: { signal: AbortSignal }): Promise<{ rowCount: number }>;
}

interface CarrierGateway {
  /** The carrier ignores a revision lower than one it has seen and repeats of the same one. */
  reroute(
    parcelId: string,
    order: { revision: number; target: RerouteCommand['target'] },
    opts: { signal: AbortSignal },
  ): Promise<void>;
}

interface Logger {
  info(msg: string, ctx?: object): void;
  warn(msg: string, ctx?: object): void;
}

type Outcome = 'ack' | 'redeliver';

const TTL_MS = 30_000;
const MARGIN_MS = 8_000;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export function createRerouteHandler(redis: RedisClientType, db: Db, carrier: CarrierGateway, log: Logger) {
  async function apply(cmd: RerouteCommand, signal: AbortSignal): Promise<void> {
    // The sequence number is what orders the changes of a parcel, here and at the
    // carrier. A late or repeated command finds a newer number and does nothing.
    const claimed = await db.query(
      `UPDATE parcels
          SET reroute_seq = $2, target = $3, reroute_pending = true
        WHERE id = $1
          AND (reroute_seq < $2 OR (reroute_seq = $2 AND reroute_pending))`,
      [cmd.parcelId, cmd.sequence, JSON.stringify(cmd.target)],
      { signal },
    );
    if (claimed.rowCount === 0) {
      log.info('reroute superseded or already done', { parcelId: cmd.parcelId, sequence: cmd.sequence });
      return;
    }

    await carrier.reroute(cmd.parcelId, { revision: cmd.sequence, target: cmd.target }, { signal });

    await db.query(
      'UPDATE parcels SET reroute_pending = false WHERE id = $1 AND reroute_seq = $2',
      [cmd.parcelId, cmd.sequence],
      { signal },
    );
    log.info('parcel rerouted', { parcelId: cmd.parcelId, sequence: cmd.sequence });
  }

  /** Queue handler; every message may be delivered more than once and in any order. */
  return async function handle(cmd: RerouteCommand): Promise<Outcome> {
    const key = `parcel:${cmd.parcelId}:reroute`;
    const token = randomUUID();

    const sentAt = performance.now();
    const reply = await redis.set(key, token, { NX: true, PX: TTL_MS });
    if (reply !== 'OK') return 'redeliver';

    try {
      const budget = Math.floor(TTL_MS - MARGIN_MS - (performance.now() - sentAt));
      if (budget <= 0) return 'redeliver';
      await apply(cmd, AbortSignal.timeout(budget));
      return 'ack';
    } catch (err) {
      log.warn('reroute not finished, will be delivered again', { parcelId: cmd.parcelId, err });
      return 'redeliver';
    } finally {
      await redis.eval(RELEASE, { keys: [key], arguments: [token] }).catch((err: unknown) => {
        log.warn('reroute lock left to expire', { key, err });
      });
    }
  };
}
