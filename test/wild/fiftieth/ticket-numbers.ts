import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
import { knex as createKnex, type Knex } from 'knex';

const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 1_000, maxRetriesPerRequest: 1 });
redis.on('error', (err) => console.error('redis', err.message));

const knex = createKnex({
  client: 'pg',
  connection: process.env.DATABASE_URL,
  pool: { min: 2, max: 20 },
  acquireConnectionTimeout: 3_000,
});

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
else
  return 0
end`;

class ProjectLock {
  private constructor(private readonly key: string, private readonly token: string) {}

  static async obtain(projectId: number): Promise<ProjectLock> {
    const key = `project:${projectId}:numbering`;
    const token = randomUUID();
    for (let i = 0; i < 30; i++) {
      const r = await redis.set(key, token, 'PX', 20_000, 'NX');
      if (r === 'OK') return new ProjectLock(key, token);
      await new Promise((res) => setTimeout(res, 50 + Math.random() * 100));
    }
    throw new Error(`project ${projectId}: numbering is locked`);
  }

  async free(): Promise<void> {
    await redis.eval(UNLOCK, 1, this.key, this.token).catch((err: Error) => {
      console.warn(`could not free ${this.key}: ${err.message}`);
    });
  }
}

export interface NewTicket {
  projectId: number;
  title: string;
  reporter: string;
  labels: string[];
}

async function nextNumber(trx: Knex.Transaction, projectId: number): Promise<number> {
  const row = await trx('tickets').where({ project_id: projectId }).max('number as last').first().timeout(2_000);
  return Number(row?.last ?? 0) + 1;
}

export async function createTicket(input: NewTicket): Promise<{ id: string; number: number }> {
  return knex.transaction(async (trx) => {
    const lock = await ProjectLock.obtain(input.projectId);
    try {
      const number = await nextNumber(trx, input.projectId);
      const id = randomUUID();
      await trx('tickets')
        .insert({ id, number, project_id: input.projectId, title: input.title, reporter: input.reporter })
        .timeout(2_000);
      if (input.labels.length > 0) {
        await trx('ticket_labels')
          .insert(input.labels.map((label) => ({ ticket_id: id, label })))
          .timeout(2_000);
      }
      return { id, number };
    } finally {
      await lock.free();
    }
  });
}
