import { hostname } from 'node:os';
import type { Redis } from 'ioredis';

export interface TicketStore {
  nextUnassigned(queue: string): Promise<{ id: string } | null>;
  assign(ticketId: string, agentId: string): Promise<void>;
}

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const TTL_MS = 20_000;

export class TicketAssignService {
  private readonly owner = hostname();

  constructor(
    private readonly redis: Redis,
    private readonly tickets: TicketStore,
  ) {}

  async assignNext(queue: string, agentId: string): Promise<string | null> {
    const key = `tickets:${queue}:assign`;
    if (!(await this.enter(key))) {
      throw new Error(`queue ${queue} is busy`);
    }
    try {
      const ticket = await this.tickets.nextUnassigned(queue);
      if (!ticket) return null;
      await this.tickets.assign(ticket.id, agentId);
      return ticket.id;
    } finally {
      await this.redis.eval(RELEASE, 1, key, this.owner);
    }
  }

  private async enter(key: string): Promise<boolean> {
    const set = await this.redis.set(key, this.owner, 'PX', TTL_MS, 'NX');
    if (set === 'OK') return true;
    return (await this.redis.get(key)) === this.owner;
  }
}
