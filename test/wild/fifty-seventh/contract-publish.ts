import { randomUUID } from 'node:crypto';
import type { Knex } from 'knex';
import type { RedisClientType } from 'redis';
import { logger } from '../logger';
import { renderContract } from './render';

const log = logger.child({ component: 'contract-publish' });

const LOCK_TTL_MS = 20_000;

// Lock plus a fencing token that only ever grows.
const LOCK = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0`;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class FencedOffError extends Error {
  constructor(contractId: string, token: number, seen: number) {
    super(`contract ${contractId}: token ${token} is older than ${seen}`);
    this.name = 'FencedOffError';
  }
}

interface PublishedRow {
  contract_id: string;
  html: string;
  clause_count: number;
  fence: string; // bigint
}

export class ContractPublisher {
  constructor(
    private readonly redis: RedisClientType,
    private readonly db: Knex,
  ) {}

  /**
   * Renders the current draft and makes it the published version. Rendering a large contract
   * can outlast the lock; that is what the fencing token is for, the write below refuses
   * a publisher that has been overtaken.
   */
  async publish(contractId: string): Promise<'published' | 'busy'> {
    const lockKey = `contract:{${contractId}}:publish`;
    const owner = randomUUID();
    const token = Number(
      await this.redis.eval(LOCK, {
        keys: [lockKey, `contract:{${contractId}}:fence`],
        arguments: [owner, String(LOCK_TTL_MS)],
      }),
    );
    if (token === 0) return 'busy';

    try {
      const draft = await this.db('contract_drafts').where({ contract_id: contractId }).first();
      if (!draft) throw new Error(`contract ${contractId} has no draft`);

      const { html, clauseCount } = await renderContract(draft);
      await this.store(contractId, token, html, clauseCount);
      log.info({ contractId, token, clauseCount }, 'contract published');
      return 'published';
    } finally {
      await this.redis
        .eval(UNLOCK, { keys: [lockKey], arguments: [owner] })
        .catch((err) => log.warn({ err, contractId }, 'unlock failed'));
    }
  }

  // The row is created together with the contract, fence 0.
  private async store(contractId: string, token: number, html: string, clauseCount: number): Promise<void> {
    const current = await this.db<PublishedRow>('contracts_published').where({ contract_id: contractId }).first('fence');
    if (!current) throw new Error(`contract ${contractId} does not exist`);

    const seen = Number(current.fence);
    if (seen > token) {
      throw new FencedOffError(contractId, token, seen);
    }

    await this.db<PublishedRow>('contracts_published')
      .where({ contract_id: contractId })
      .update({ html, clause_count: clauseCount, fence: String(token) });
  }
}
