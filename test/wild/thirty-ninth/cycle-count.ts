import Redis from 'ioredis';
import pino from 'pino';
import Redlock from 'redlock5';

const log = pino({ name: 'cycle-count' });

const lockNodes = (process.env.LOCK_NODES ?? 'lock-1:6379,lock-2:6379,lock-3:6379')
  .split(',')
  .map((node) => {
    const [host, port] = node.split(':');
    return new Redis({ host, port: Number(port) });
  });

const stock = new Redis(process.env.STOCK_REDIS_URL ?? 'redis://localhost:6379');

const redlock = new Redlock(lockNodes, { retryCount: 5, retryDelay: 300, retryJitter: 150 });
redlock.on('error', (err) => log.debug({ err }, 'redlock'));

const LOCK_MS = 30_000;
const HEARTBEAT_MS = 10_000;

async function scanBin(zone: string, bin: string): Promise<number> {
  const res = await fetch(`${process.env.DRONE_URL}/zones/${zone}/bins/${bin}/scan`, {
    method: 'POST',
    signal: AbortSignal.timeout(15_000),
  });
  if (!res.ok) throw new Error(`scan of ${bin} failed: ${res.status}`);
  const body = (await res.json()) as { pieces: number };
  return body.pieces;
}

/**
 * Counts all bins of a zone and corrects the books by the difference.
 * A zone has some 200 bins, so this takes a quarter of an hour. It is closed
 * for picking meanwhile.
 */
export async function countZone(zone: string): Promise<number> {
  const lock = await redlock.acquire([`count:${zone}`], LOCK_MS);

  const heartbeat = setInterval(() => {
    lock.extend(LOCK_MS).then(
      () => log.debug({ zone }, 'lock extended'),
      (err) => log.warn({ err, zone }, 'could not extend lock'),
    );
  }, HEARTBEAT_MS);

  try {
    const booked = await stock.hgetall(`zone:${zone}:pieces`);
    const tx = stock.multi();
    let corrections = 0;
    for (const [bin, pieces] of Object.entries(booked)) {
      const difference = (await scanBin(zone, bin)) - Number(pieces);
      if (difference === 0) continue;
      tx.hincrby(`zone:${zone}:pieces`, bin, difference);
      tx.rpush('stock:corrections', JSON.stringify({ zone, bin, difference }));
      corrections++;
    }
    await tx.exec();
    log.info({ zone, corrections }, 'zone counted');
    return corrections;
  } finally {
    clearInterval(heartbeat);
    await lock.release().catch((err) => log.warn({ err, zone }, 'release'));
  }
}
