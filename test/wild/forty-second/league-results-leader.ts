import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import Redis from 'ioredis';
import { Pool } from 'pg';

// Exactly one node pulls the score feed and publishes results for a league.

const TTL_MS = 12_000;
const MARGIN_MS = 3_000;
const CAMPAIGN = `
  if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    return redis.call('incr', KEYS[2])
  end
  return 0`;
const RENEW = `
  if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end
  return 0`;
const RESIGN = `
  if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
  return 0`;

interface Score {
  fixtureId: number;
  home: number;
  away: number;
}

export class ResultsLeader {
  private token = '';
  private epoch = 0;
  private leaseUntil = 0;
  private timer?: NodeJS.Timeout;
  private stopped = false;

  constructor(
    private readonly redis: Redis,
    private readonly pool: Pool,
    private readonly league: string,
    private readonly fetchScores: (league: string) => Promise<Score[]>,
  ) {}

  private get leaderKey() {
    return `{league:${this.league}}:leader`;
  }

  private get epochKey() { return `{league:${this.league}}:epoch`; }

  isLeader(): boolean {
    return this.epoch > 0 && performance.now() < this.leaseUntil;
  }

  start(): void {
    const loop = async () => {
      try {
        await this.keepLease();
        if (this.isLeader()) await this.publish();
      } catch (err) {
        console.error(`[${this.league}] leader tick`, err);
      }
      if (!this.stopped) this.timer = setTimeout(loop, 2_000);
    };
    void loop();
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    this.stepDown();
    await this.redis.eval(RESIGN, 1, this.leaderKey, this.token);
  }

  private stepDown(): void {
    this.epoch = 0;
    this.leaseUntil = 0;
  }

  private async keepLease(): Promise<void> {
    const sentAt = performance.now();
    if (this.isLeader()) {
      const ok = await this.redis.eval(RENEW, 1, this.leaderKey, this.token, TTL_MS);
      if (ok === 1) this.leaseUntil = sentAt + TTL_MS - MARGIN_MS;
      else this.stepDown();
      return;
    }
    this.stepDown();
    this.token = randomUUID();
    const epoch = Number(
      await this.redis.eval(CAMPAIGN, 2, this.leaderKey, this.epochKey, this.token, TTL_MS),
    );
    if (epoch > 0 && !this.stopped) {
      this.epoch = epoch;
      this.leaseUntil = sentAt + TTL_MS - MARGIN_MS;
      console.log(`[${this.league}] leading, epoch ${epoch}`);
    }
  }

  private async publish(): Promise<void> {
    const { epoch } = this;
    for (const s of await this.fetchScores(this.league)) {
      if (!this.isLeader() || this.epoch !== epoch) return;
      const res = await this.pool.query(
        `INSERT INTO results AS r (fixture_id, home, away, epoch) VALUES ($1, $2, $3, $4) ON CONFLICT (fixture_id)
         DO UPDATE SET home = $2, away = $3, epoch = $4 WHERE r.epoch <= $4`,
        [s.fixtureId, s.home, s.away, epoch],
      );
      if (res.rowCount === 0) return this.stepDown();
    }
  }
}
