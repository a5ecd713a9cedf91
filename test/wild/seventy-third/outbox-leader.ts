import os from 'node:os';
import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import { Kafka } from 'kafkajs';
import { pool } from '../db';
import { gauge } from '../metrics';

const LEASE_MS = Number(process.env.OUTBOX_LEASE_MS ?? 12_000);
const SAFETY_MS = 2_000;
const KEY = 'outbox-relay:leader';

// Taking and keeping the seat are the same command, so repeating it is harmless.
const CAMPAIGN = `
local cur = redis.call('GET', KEYS[1])
if cur == false then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
if cur == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
return 0`;

const RESIGN = `if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end return 1`;

/**
 * One relay at a time pushes the outbox to Kafka, to spare the database the
 * polling. Events carry their outbox id and consumers drop ids they know, so
 * the odd event sent twice around a change of leader does not matter.
 */
export class OutboxRelay {
  private readonly id = `${os.hostname()}:${randomUUID()}`;
  private readonly redis = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
  private readonly producer = new Kafka({ brokers: process.env.KAFKA_BROKERS!.split(',') }).producer();
  private leadUntil = 0;
  private stopping = false;
  private retired = false;
  private heartbeat?: NodeJS.Timeout;
  private loop?: Promise<void>;

  async start(): Promise<void> {
    this.redis.on('error', (err) => console.error('outbox redis', err.message));
    await this.redis.connect();
    await this.producer.connect();
    this.heartbeat = setInterval(() => void this.campaign(), LEASE_MS / 4);
    this.loop = this.work();
  }

  async stop(): Promise<void> {
    this.stopping = true;
    await this.loop;
    clearInterval(this.heartbeat);
    this.retired = true;
    this.leadUntil = 0;
    await this.redis.eval(RESIGN, { keys: [KEY], arguments: [this.id] }).catch(() => undefined);
    await this.producer.disconnect();
    await this.redis.quit().catch(() => undefined);
  }

  private isLeader(): boolean {
    return performance.now() < this.leadUntil;
  }

  private async campaign(): Promise<void> {
    const sentAt = performance.now();
    try {
      const won = await this.redis.eval(CAMPAIGN, { keys: [KEY], arguments: [this.id, String(LEASE_MS)] });
      if (this.retired) return;
      // counted from before the command left, Redis can only have started later
      this.leadUntil = Number(won) === 1 ? sentAt + LEASE_MS - SAFETY_MS : 0;
    } catch (err) {
      // leadUntil stays as it is and runs out by itself
      console.warn('outbox campaign failed', (err as Error).message);
    }
    gauge('outbox_leader', this.isLeader() ? 1 : 0);
  }

  private async work(): Promise<void> {
    while (!this.stopping) {
      let sent = 0;
      try {
        if (this.isLeader()) sent = await this.relayBatch();
      } catch (err) {
        console.error('outbox batch failed', err);
      }
      if (sent === 0) await sleep(500);
    }
  }

  private async relayBatch(): Promise<number> {
    const { rows } = await pool.query(
      'SELECT id, topic, partition_key, payload FROM outbox WHERE sent_at IS NULL ORDER BY id LIMIT 100',
    );
    let sent = 0;
    for (const row of rows) {
      if (!this.isLeader()) break;
      await this.producer.send({
        topic: row.topic,
        messages: [{ key: row.partition_key, value: row.payload, headers: { 'outbox-id': String(row.id) } }],
      });
      await pool.query('UPDATE outbox SET sent_at = now() WHERE id = $1 AND sent_at IS NULL', [row.id]);
      sent++;
    }
    return sent;
  }
}
