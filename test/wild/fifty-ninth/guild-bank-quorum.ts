import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
import { logger } from './logger';
import { guildVaults } from './repositories/guild-vaults';
import { auditLog } from './repositories/audit-log';

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const NODES = (process.env.LOCK_NODES ?? '').split(',').filter(Boolean); // five, one per rack

const clients = NODES.map((url) => {
  const c = new Redis(url, { commandTimeout: 250, maxRetriesPerRequest: 0, enableOfflineQueue: false });
  c.on('error', (err) => logger.debug({ err, url }, 'lock node'));
  return c;
});

const TTL_MS = 10_000;
const DRIFT_MS = TTL_MS * 0.01 + 2;

export interface QuorumLease {
  key: string;
  token: string;
  validForMs: number;
}

/**
 * Redlock by hand: the lease counts when a majority of the independent nodes granted it and there
 * is time left after the round trip.
 */
export async function acquire(key: string): Promise<QuorumLease | null> {
  const token = randomUUID();
  const startedAt = Date.now();

  const answers = await Promise.allSettled(clients.map((c) => c.set(key, token, 'PX', TTL_MS, 'NX')));

  // Nodes which are down have no say; what counts is the majority of those that voted.
  const votes = answers.filter((a): a is PromiseFulfilledResult<'OK' | null> => a.status === 'fulfilled');
  const granted = votes.filter((v) => v.value === 'OK').length;
  const quorum = Math.floor(votes.length / 2) + 1;

  const validForMs = TTL_MS - (Date.now() - startedAt) - DRIFT_MS;

  if (granted >= quorum && validForMs > 0) {
    return { key, token, validForMs };
  }
  logger.debug({ key, granted, quorum }, 'no quorum');
  await release({ key, token, validForMs: 0 });
  return null;
}

export async function release(lease: QuorumLease): Promise<void> {
  // on all nodes, also on those whose answer we did not see
  await Promise.allSettled(clients.map((c) => c.eval(RELEASE, 1, lease.key, lease.token)));
}

export interface Withdrawal {
  guildId: string;
  playerId: string;
  itemId: string;
  amount: number;
}

export class VaultBusyError extends Error {
  constructor(guildId: string) {
    super(`vault of guild ${guildId} is busy`);
  }
}

export async function withdraw(w: Withdrawal): Promise<{ left: number }> {
  const lease = await acquire(`guild-vault:${w.guildId}`);
  if (!lease) throw new VaultBusyError(w.guildId);

  try {
    // all storage calls stop in good time before the lease does
    const signal = AbortSignal.timeout(Math.max(1, lease.validForMs - 3_000));

    const vault = await guildVaults.load(w.guildId, { signal });
    const have = vault.items[w.itemId] ?? 0;
    if (have < w.amount) throw new RangeError(`vault holds ${have} of ${w.itemId}`);

    vault.items[w.itemId] = have - w.amount;
    await guildVaults.save(vault, { signal });
    await auditLog.append({ type: 'guild.withdraw', at: new Date(), ...w }, { signal });

    return { left: have - w.amount };
  } finally {
    await release(lease);
  }
}
