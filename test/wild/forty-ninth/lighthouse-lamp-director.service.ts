import { Inject, Injectable, Logger, OnApplicationShutdown, OnModuleInit } from '@nestjs/common';
import { InjectDataSource } from '@nestjs/typeorm';
import type Redis from 'ioredis';
import { DataSource } from 'typeorm';
import { randomUUID } from 'node:crypto';
import { REDIS } from '../redis/redis.module';
import { patternFor } from './patterns';

const KEY = 'lighthouse:director';
const TTL_MS = 15_000;
const TICK_MS = 4_000;
const MARGIN_MS = 3_000;

const RENEW = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;
const RESIGN = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

interface Mandate {
  token: string;
  term: string;
  until: number;
}

@Injectable()
export class LampDirectorService implements OnModuleInit, OnApplicationShutdown {
  private readonly logger = new Logger(LampDirectorService.name);
  private mandate: Mandate | null = null;
  private timer?: NodeJS.Timeout;
  private current: Promise<void> = Promise.resolve();
  private stopped = false;

  constructor(
    @Inject(REDIS) private readonly redis: Redis,
    @InjectDataSource() private readonly db: DataSource,
  ) {}

  onModuleInit() {
    this.schedule(0);
  }

  async onApplicationShutdown() {
    this.stopped = true;
    clearTimeout(this.timer);
    await this.current;
    if (this.mandate) await this.resign(this.mandate.token);
    this.mandate = null;
  }

  private schedule(ms: number) {
    this.timer = setTimeout(() => {
      this.current = this.tick().finally(() => {
        if (!this.stopped) this.schedule(TICK_MS);
      });
    }, ms);
  }

  private inCharge(): boolean {
    return !this.stopped && this.mandate !== null && performance.now() < this.mandate.until - MARGIN_MS;
  }

  private async tick(): Promise<void> {
    try {
      if (this.mandate) await this.renew(this.mandate);
      else await this.campaign();
      if (this.inCharge()) await this.direct();
    } catch (err) {
      this.logger.warn(`director tick failed: ${(err as Error).message}`);
    }
  }

  private async campaign() {
    const token = randomUUID();
    if ((await this.redis.set(KEY, token, 'PX', TTL_MS, 'NX')) !== 'OK') return;
    try {
      const [{ term }] = await this.db.query(`SELECT nextval('lamp_director_term') AS term`);
      // A term counts once the key is seen to be ours after the number was drawn.
      const sentAt = performance.now();
      if ((await this.redis.eval(RENEW, 1, KEY, token, TTL_MS)) !== 1) return;
      this.mandate = { token, term, until: sentAt + TTL_MS };
      this.logger.log(`directing lamps, term ${term}`);
    } catch (err) {
      await this.resign(token);
      throw err;
    }
  }

  private async renew(mandate: Mandate) {
    const sentAt = performance.now();
    if ((await this.redis.eval(RENEW, 1, KEY, mandate.token, TTL_MS)) === 1) {
      mandate.until = sentAt + TTL_MS;
      return;
    }
    this.logger.warn(`term ${mandate.term} is over`);
    this.mandate = null;
  }

  private async resign(token: string) {
    await this.redis.eval(RESIGN, 1, KEY, token).catch((err) => this.logger.warn(`resign: ${err.message}`));
  }

  private async direct() {
    const term = this.mandate!.term;
    const lamps: { id: string; pattern: string; fog: boolean }[] = await this.db.query(
      'SELECT id, pattern, fog FROM lamp_controllers WHERE enabled',
    );
    for (const lamp of lamps) {
      const pattern = patternFor(lamp.id, lamp.fog, new Date());
      if (pattern === lamp.pattern) continue;
      if (!this.inCharge()) return;
      await this.db.query(
        'UPDATE lamp_controllers SET pattern = $2, director_term = $3 WHERE id = $1 AND director_term <= $3',
        [lamp.id, pattern, term],
      );
    }
  }
}
