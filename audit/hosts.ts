import { addressOf, nodeAt } from '../libraries/net/addresses.js';

/** Ports of what is no Redis, and what is usually there. */
const OTHERS: ReadonlyMap<number, string> = new Map([
  [5432, 'PostgreSQL'],
  [3306, 'MySQL'],
  [1433, 'SQL Server'],
  [27017, 'MongoDB'],
  [9042, 'Cassandra'],
  [9092, 'Kafka'],
  [5672, 'RabbitMQ'],
  [2379, 'etcd'],
  [2181, 'ZooKeeper'],
  [11211, 'Memcached'],
  [26379, 'Redis Sentinel'],
  [80, 'a web server'],
  [8080, 'a web server'],
]);

/** What is usually found at an address, in a few words; `null` for what may be a Redis. */
export function knownServiceAt(where: string): string | null {
  const port = /:(\d+)$/.exec(where)?.[1];
  return OTHERS.get(Number(port)) ?? null;
}

const HTTPS = 443;

/** Which simulated node stands for the Redis at an address: one after the other, in the order in which they are first met. */
export class Hosts {
  private readonly known = new Map<string, number>();
  /** Most nodes that there may be. */
  readonly most: number;

  private readonly isOne: boolean;

  /** @param isOne - One node stands for all of them: the lock is on one, and the others have something else. Default: no. */
  constructor(most: number, isOne: boolean = false) {
    this.most = most;
    this.isOne = isOne;
  }

  /** How many different addresses were met. */
  get met(): number {
    return new Set(this.known.values()).size;
  }

  /** How many of them the file names itself. */
  get named(): number {
    return new Set([...this.known].filter(([place]) => !/^n\d+(?::|$)/.test(place)).map(([, index]) => index)).size;
  }

  readonly nodeAt = (host: string, port: number): number => {
    const own = nodeAt(host);
    if (own < 0 && port === HTTPS && !/upstash|vercel-storage|redis|kv/i.test(host)) return -1;
    if (OTHERS.has(port) || /\.sock$/.test(host)) return -1;
    const place =
      own >= 0 && port !== HTTPS && port !== addressOf(0).port
        ? `${host}:${port}`
        : own >= 0
          ? `n${own}`
          : `${host === '127.0.0.1' || host === '::1' ? 'localhost' : host}:${port}`;
    const before = this.known.get(place);
    if (before !== undefined) return before;
    const index = this.isOne ? 0 : own >= 0 ? own : this.known.size;
    if (index >= this.most) return -1;
    this.known.set(place, index);
    return index;
  };
}
