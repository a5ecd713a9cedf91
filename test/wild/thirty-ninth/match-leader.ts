import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pino from 'pino';
import { createClient } from 'redis';

const log = pino({ name: 'matchmaker' });

const CAMPAIGN = `
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
if not holder then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
return 0`;

const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

const FORM_MATCH = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
if redis.call('ZCARD', KEYS[2]) < tonumber(ARGV[2]) then return 0 end
local popped = redis.call('ZPOPMIN', KEYS[2], ARGV[2])
local players = {}
for i = 1, #popped, 2 do players[#players + 1] = popped[i] end
redis.call('RPUSH', KEYS[3], cjson.encode({ id = ARGV[3], players = players }))
return 1`;

const LEADER_KEY = 'mm:leader';
const LEADER_MS = 6_000;
const TEAM_SIZE = 8;

export class Matchmaker {
  private readonly id = randomUUID();
  private leading = false;
  private readonly redis = createClient({ url: process.env.REDIS_URL });

  constructor(private readonly region: string) {
    this.redis.on('error', (err) => log.error({ err }, 'redis'));
  }

  async run(signal: AbortSignal): Promise<void> {
    await this.redis.connect();
    while (!signal.aborted) {
      try {
        if (await this.campaign()) await this.drain();
      } catch (err) {
        log.error({ err }, 'round failed');
      }
      await sleep(1_000, undefined, { signal }).catch(() => undefined);
    }
    await this.redis.eval(RESIGN, { keys: [this.key()], arguments: [this.id] });
    await this.redis.close();
  }

  private key(): string {
    return `${LEADER_KEY}:${this.region}`;
  }

  private async campaign(): Promise<boolean> {
    const reply = await this.redis.eval(CAMPAIGN, {
      keys: [this.key()],
      arguments: [this.id, String(LEADER_MS)],
    });
    const leading = Number(reply) === 1;
    if (leading !== this.leading) log.info({ region: this.region, leading }, 'leadership changed');
    this.leading = leading;
    return leading;
  }

  private async drain(): Promise<void> {
    for (let formed = 0; formed < 200; formed++) {
      const reply = await this.redis.eval(FORM_MATCH, {
        keys: [this.key(), `mm:queue:${this.region}`, `mm:matches:${this.region}`],
        arguments: [this.id, String(TEAM_SIZE), randomUUID()],
      });
      const outcome = Number(reply);
      if (outcome === -1) this.leading = false;
      if (outcome !== 1) return;
    }
  }
}
