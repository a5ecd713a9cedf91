import { Injectable, ConflictException, OnModuleDestroy } from '@nestjs/common';
import { createClient } from 'redis';
import { randomUUID } from 'crypto';

const OWNER = randomUUID();
const LOCK_MS = 20_000;

const releaseScript = `
  if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
  end
  return 0
`;

export abstract class TicketRepository {
  abstract find(id: string): Promise<{ id: string; ownerId: string }>;
  abstract verifyIdentity(user: string): Promise<void>;
  abstract setOwner(id: string, owner: string, opts: { timeout: number }): Promise<void>;
}

@Injectable()
export class TicketTransferService implements OnModuleDestroy {
  private readonly client = createClient({ url: process.env.REDIS_URL });
  private readonly ready = this.client.connect();

  constructor(private readonly tickets: TicketRepository) {}

  async transfer(ticketId: string, from: string, to: string): Promise<void> {
    await this.ready;
    const key = `ticket:${ticketId}:transfer`;
    const startedAt = performance.now();
    const reply = await this.client.set(key, OWNER, { NX: true, PX: LOCK_MS });
    if (reply !== 'OK') throw new ConflictException('ticket is being transferred');

    try {
      const ticket = await this.tickets.find(ticketId);
      if (ticket.ownerId !== from) throw new ConflictException('not your ticket');
      await this.tickets.verifyIdentity(to);

      if (performance.now() - startedAt > LOCK_MS - 5_000) {
        throw new ConflictException('verification took too long');
      }
      await this.tickets.setOwner(ticketId, to, { timeout: 3_000 });
    } finally {
      await this.client.eval(releaseScript, { keys: [key], arguments: [OWNER] });
    }
  }

  async onModuleDestroy() {
    await this.client.close();
  }
}
