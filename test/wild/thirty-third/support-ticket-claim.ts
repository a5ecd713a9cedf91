import { createClient, WatchError } from 'redis';

type RedisClient = ReturnType<typeof createClient>;

interface Ticket {
  id: string;
  subject: string;
  status: 'open' | 'claimed' | 'closed';
  assignee: string | null;
  claimedAt: number | null;
}

export type ClaimResult =
  | { ok: true; ticket: Ticket }
  | { ok: false; reason: 'not-found' | 'taken' | 'contended' };

const MAX_TRIES = 3;

const ticketKey = (id: string) => `helpdesk:ticket:${id}`;
const agentKey = (agentId: string) => `helpdesk:agent:${agentId}:tickets`;

/**
 * Assigns open tickets to agents. Two agents who press "take it" together must
 * not both get the ticket; a claim goes through in one transaction or not at all.
 */
export class TicketDesk {
  readonly #redis: RedisClient;

  constructor(redis: RedisClient) {
    this.#redis = redis;
  }

  async claim(ticketId: string, agentId: string): Promise<ClaimResult> {
    // WATCH is a matter of the connection, so every claim has one to itself.
    const conn = this.#redis.duplicate();
    conn.on('error', (err) => console.warn('claim connection:', err.message));
    await conn.connect();
    try {
      for (let attempt = 1; attempt <= MAX_TRIES; attempt++) {
        const raw = await conn.get(ticketKey(ticketId));
        if (raw === null) return { ok: false, reason: 'not-found' };

        const ticket = JSON.parse(raw) as Ticket;
        if (ticket.status !== 'open') return { ok: false, reason: 'taken' };

        const claimed: Ticket = {
          ...ticket,
          status: 'claimed',
          assignee: agentId,
          claimedAt: Date.now(),
        };

        await conn.watch(ticketKey(ticketId));
        try {
          await conn
            .multi()
            .set(ticketKey(ticketId), JSON.stringify(claimed))
            .sAdd(agentKey(agentId), ticketId)
            .zRem('helpdesk:open', ticketId)
            .exec();
          return { ok: true, ticket: claimed };
        } catch (err) {
          if (!(err instanceof WatchError)) throw err;
        }
      }
      return { ok: false, reason: 'contended' };
    } finally {
      conn.destroy();
    }
  }

  async queue(limit = 20): Promise<Ticket[]> {
    const ids = await this.#redis.zRange('helpdesk:open', 0, limit - 1);
    if (ids.length === 0) return [];
    const raws = await this.#redis.mGet(ids.map(ticketKey));
    return raws.filter((raw) => raw !== null).map((raw) => JSON.parse(raw) as Ticket);
  }
}

export async function connectDesk(): Promise<TicketDesk> {
  const redis = createClient({ url: process.env.REDIS_URL ?? 'redis://localhost:6379' });
  redis.on('error', (err) => console.error('redis:', err.message));
  await redis.connect();
  return new TicketDesk(redis);
}
