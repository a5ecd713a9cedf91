import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const delay = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

export interface TableLockOptions {
  ttlMs: number;
  waitMs: number;
  pollMs: number;
}

const defaults: TableLockOptions = { ttlMs: 8_000, waitMs: 3_000, pollMs: 100 };

export class TableLock {
  private readonly client: Client;
  private readonly options: TableLockOptions;

  constructor(client: Client, options: Partial<TableLockOptions> = {}) {
    this.client = client;
    this.options = { ...defaults, ...options };
  }

  async lock(table: string): Promise<string> {
    const { ttlMs, waitMs, pollMs } = this.options;
    const token = randomUUID();
    const waitUntil = Date.now() + waitMs;
    do {
      const reply = await this.client.set(`table:${table}`, token, { NX: true, PX: ttlMs });
      if (reply === 'OK') break;
      await delay(pollMs + Math.random() * pollMs);
    } while (Date.now() < waitUntil);
    return token;
  }

  async unlock(table: string, token: string): Promise<void> {
    await this.client.eval(UNLOCK, { keys: [`table:${table}`], arguments: [token] });
  }

  async withTable<T>(table: string, fn: () => Promise<T>): Promise<T> {
    const token = await this.lock(table);
    try {
      return await fn();
    } finally {
      await this.unlock(table, token);
    }
  }
}

export interface Dish {
  name: string;
  course: number;
}

export function byCourse(dishes: Dish[]): Map<number, Dish[]> {
  const courses = new Map<number, Dish[]>();
  for (const dish of dishes) {
    const list = courses.get(dish.course) ?? [];
    list.push(dish);
    courses.set(dish.course, list);
  }
  return courses;
}
