import { Redis, type RedisOptions } from 'ioredis';

/** The clients made for provisioned nodes, so that none outlives them. */
export class Clients {
  readonly #open = new Set<Redis>();

  make(url: string, options: RedisOptions = {}): Redis {
    return this.add(new Redis(url, { disconnectTimeout: 1, ...options }));
  }

  add(client: Redis): Redis {
    // Nodes are meant to fail here; ioredis prints errors that nobody listens to.
    client.on('error', () => {});
    client.on('end', () => this.#open.delete(client));
    this.#open.add(client);
    return client;
  }

  close(): void {
    for (const client of this.#open) {
      client.disconnect();
      client.stream?.destroy();
    }
    this.#open.clear();
  }
}

/** Asks the server at `url` for its INFO, once and for at most `withinMs`; rejects with what went wrong. */
export async function probe(url: string, withinMs: number): Promise<string> {
  const client = new Redis(url, { lazyConnect: true, retryStrategy: () => null, disconnectTimeout: 1 });
  let problem: Error | undefined;
  client.on('error', (error) => {
    problem ??= error;
  });
  let timer: NodeJS.Timeout | undefined;
  const bound = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${withinMs} ms`)), withinMs);
  });
  try {
    return await Promise.race([client.connect().then(() => client.info('server')), bound]);
  } catch (error) {
    throw problem ?? error;
  } finally {
    clearTimeout(timer);
    client.disconnect();
    client.stream?.destroy();
  }
}
