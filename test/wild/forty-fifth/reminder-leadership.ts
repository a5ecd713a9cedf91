import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { SESv2Client, SendEmailCommand } from '@aws-sdk/client-sesv2';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import Redis from 'ioredis';
import knexFactory from 'knex';
import pino from 'pino';

const log = pino({ name: 'reminders' });
const knex = knexFactory({ client: 'pg', connection: process.env.DATABASE_URL });
const ses = new SESv2Client({ maxAttempts: 1, requestHandler: new NodeHttpHandler({ requestTimeout: 3_000 }) });
const redis = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: 1, commandTimeout: 2_000 });
redis.on('error', (err) => log.warn({ err: err.message }, 'redis connection'));

const CAMPAIGN = `
local current = redis.call('GET', KEYS[1])
if current == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
if current then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;
const RESIGN = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

export class Leadership {
  private readonly id = `${hostname()}:${randomUUID()}`;
  private leading = false;
  private stopped = false;
  private timer?: NodeJS.Timeout;
  private inflight: Promise<void> = Promise.resolve();

  constructor(private readonly key: string, private readonly leaseMs = 15_000) {}

  get isLeader(): boolean {
    return this.leading;
  }

  start(): void {
    this.inflight = this.campaign();
  }

  private async campaign(): Promise<void> {
    try {
      const won = (await redis.eval(CAMPAIGN, 1, this.key, this.id, this.leaseMs)) === 1;
      if (won !== this.leading) log.info({ id: this.id }, won ? 'became leader' : 'lost leadership');
      this.leading = won;
    } catch (err) {
      log.warn({ err: (err as Error).message }, 'campaign failed, next try follows');
    }
    if (!this.stopped) this.timer = setTimeout(() => this.start(), this.leaseMs / 3);
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    await this.inflight;
    this.leading = false;
    await redis.eval(RESIGN, 1, this.key, this.id).catch(() => undefined);
  }
}

// Only the leader mails; a crash in the middle may repeat one reminder, which product agreed to.
const leadership = new Leadership('reminders:leader');
let running = true;

async function sweep(): Promise<void> {
  const due = await knex('reminders')
    .whereNull('sent_at')
    .andWhere('due_at', '<=', knex.fn.now())
    .orderBy('due_at')
    .limit(20);
  for (const r of due) {
    if (!leadership.isLeader || !running) return;
    await ses.send(
      new SendEmailCommand({
        FromEmailAddress: process.env.MAIL_FROM,
        Destination: { ToAddresses: [r.email] },
        Content: { Simple: { Subject: { Data: r.subject }, Body: { Text: { Data: r.body } } } },
      }),
    );
    await knex('reminders').where({ id: r.id }).update({ sent_at: knex.fn.now() });
  }
}

async function loop(): Promise<void> {
  while (running) {
    if (leadership.isLeader) await sweep().catch((err) => log.error({ err }, 'sweep failed'));
    await new Promise((r) => setTimeout(r, 2_000));
  }
}

leadership.start();
const done = loop();

process.once('SIGTERM', async () => {
  running = false;
  await done;
  await leadership.stop();
  await knex.destroy();
  redis.disconnect();
});
