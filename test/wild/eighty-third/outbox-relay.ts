import { hostname } from 'node:os';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import { Kafka } from 'kafkajs';
import { Pool } from 'pg';

const KEY = 'outbox-relay:leader';
const TTL = 10_000;

const RENEW = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end`;
const DROP = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;

export class OutboxRelay {
  private readonly me = `${hostname()}:${randomUUID()}`;
  private readonly redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 2_000 });
  private readonly pool = new Pool();
  private readonly producer = new Kafka({ brokers: process.env.BROKERS!.split(',') }).producer();
  private leader = false;
  private stopped = false;

  async start(): Promise<void> {
    await this.producer.connect();
    const timer = setInterval(() => void this.elect(), TTL / 3);
    await this.elect();
    while (!this.stopped) {
      if (this.leader) await this.relayBatch().catch((err) => console.error('relay', err));
      await sleep(200);
    }
    clearInterval(timer);
    this.leader = false;
    await this.redis.eval(DROP, 1, KEY, this.me);
  }

  stop(): void {
    this.stopped = true;
  }

  private async elect(): Promise<void> {
    try {
      if (this.leader) {
        const kept = await this.redis.eval(RENEW, 1, KEY, this.me, TTL);
        if (kept === 0) {
          console.warn('lost leadership');
          this.leader = false;
        }
        return;
      }
      this.leader = (await this.redis.set(KEY, this.me, 'PX', TTL, 'NX')) === 'OK';
      if (this.leader) console.info('now leading as', this.me);
    } catch (err) {
      console.error('election round failed, will try again', (err as Error).message);
    }
  }

  private async relayBatch(): Promise<void> {
    const { rows } = await this.pool.query(
      'select id, topic, key, payload from outbox where sent_at is null order by id limit 500',
    );
    for (const row of rows) {
      if (!this.leader) return;
      await this.producer.send({ topic: row.topic, messages: [{ key: row.key, value: row.payload }] });
      await this.pool.query('update outbox set sent_at = now() where id = $1', [row.id]);
    }
  }
}
