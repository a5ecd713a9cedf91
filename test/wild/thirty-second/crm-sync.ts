import { randomUUID } from "node:crypto";
import { createClient } from "redis";

const client = createClient({ url: process.env.REDIS_URL ?? "redis://localhost:6379" });
client.on("error", (err) => console.error("redis", err));
const ready = client.connect();

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0
`;

export class AlreadyRunningError extends Error {
  constructor(readonly key: string) {
    super(`${key} is already running`);
  }
}

/** Lets only one call per key run at a time, over all processes. */
export function exclusive<This, Args extends unknown[], R>(keyOf: (...args: Args) => string, ttlMs: number) {
  return function (
    method: (this: This, ...args: Args) => Promise<R>,
    _context: ClassMethodDecoratorContext<This, (this: This, ...args: Args) => Promise<R>>,
  ) {
    return async function (this: This, ...args: Args): Promise<R> {
      await ready;
      const key = keyOf(...args);
      const token = randomUUID();
      const reply = await client.set(key, token, { NX: true, PX: ttlMs });
      if (reply !== "OK") throw new AlreadyRunningError(key);
      try {
        return method.apply(this, args);
      } finally {
        await client
          .eval(RELEASE, { keys: [key], arguments: [token] })
          .catch((err: unknown) => console.warn(`could not release ${key}`, err));
      }
    };
  };
}

interface Contact {
  id: string;
  email: string;
  tags: string[];
}

export class CrmSync {
  constructor(
    private readonly shopUrl: string,
    private readonly crmUrl: string,
  ) {}

  @exclusive((customerId: string) => `lock:crm-sync:${customerId}`, 30_000)
  async syncCustomer(customerId: string): Promise<Contact> {
    const signal = AbortSignal.timeout(20_000);
    const customer = await this.json<{ email: string; segments: string[] }>(`${this.shopUrl}/customers/${customerId}`, { signal });
    const contact = await this.json<Contact>(`${this.crmUrl}/contacts/by-ref/${customerId}`, { signal });

    const tags = [...new Set([...contact.tags, ...customer.segments])].sort();
    return this.json<Contact>(`${this.crmUrl}/contacts/${contact.id}`, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ ...contact, email: customer.email, tags }),
      signal,
    });
  }

  private async json<T>(url: string, init: RequestInit): Promise<T> {
    const res = await fetch(url, init);
    if (!res.ok) throw new Error(`${init.method ?? "GET"} ${url}: ${res.status}`);
    return (await res.json()) as T;
  }
}
