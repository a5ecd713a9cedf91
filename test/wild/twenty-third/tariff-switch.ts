import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisClientType } from 'redis';

interface Contract {
  id: string;
  tariff: string;
}

interface ContractRepository {
  ofCooperative(cooperativeId: string): Promise<Contract[]>;
  saveTariff(contractId: string, tariff: string, opts: { signal: AbortSignal }): Promise<void>;
}

interface GridOperator {
  /** Registering the tariff a contract already has changes nothing. */
  register(contractId: string, tariff: string, opts: { signal: AbortSignal }): Promise<void>;
}

interface Logger {
  info(msg: string, ctx?: object): void;
  warn(msg: string, ctx?: object): void;
}

interface Lease {
  key: string;
  token: string;
  validUntil: number;
  lost: AbortController;
}

const LOCK_TTL = 45; // seconds
const HEARTBEAT = 15; // seconds
const CALL_MS = 8_000;

const SCRIPTS = {
  extend: `
    if redis.call('GET', KEYS[1]) == ARGV[1] then
      return redis.call('PEXPIRE', KEYS[1], ARGV[2])
    end
    return 0`,
  release: `
    if redis.call('GET', KEYS[1]) == ARGV[1] then
      return redis.call('DEL', KEYS[1])
    end
    return 0`,
};

export class TariffSwitch {
  private readonly redis: RedisClientType;
  private readonly contracts: ContractRepository;
  private readonly grid: GridOperator;
  private readonly log: Logger;

  constructor(redis: RedisClientType, contracts: ContractRepository, grid: GridOperator, log: Logger) {
    this.redis = redis;
    this.contracts = contracts;
    this.grid = grid;
    this.log = log;
  }

  /**
   * Moves every contract of a cooperative to a tariff. Most are through in a few
   * seconds; the large ones take a minute or two, for them the lease is extended.
   */
  async switchAll(cooperativeId: string, tariff: string): Promise<number> {
    const key = `tariff-switch:${cooperativeId}`;
    const token = randomUUID();
    const sentAt = performance.now();
    const reply = await this.redis.set(key, token, { NX: true, EX: LOCK_TTL });
    if (reply !== 'OK') throw new Error(`a switch of ${cooperativeId} is already running`);

    const lease: Lease = { key, token, validUntil: sentAt + LOCK_TTL * 1000, lost: new AbortController() };
    const stop = new AbortController();
    void this.heartbeat(lease, stop.signal);
    let switched = 0;
    try {
      for (const contract of await this.contracts.ofCooperative(cooperativeId)) {
        if (contract.tariff === tariff) continue;
        this.assertHeld(lease);
        const signal = AbortSignal.any([lease.lost.signal, AbortSignal.timeout(CALL_MS)]);
        await this.grid.register(contract.id, tariff, { signal });
        await this.contracts.saveTariff(contract.id, tariff, { signal });
        switched++;
      }
      this.log.info('cooperative switched', { cooperativeId, tariff, switched });
      return switched;
    } finally {
      stop.abort();
      await this.redis.eval(SCRIPTS.release, { keys: [key], arguments: [token] }).catch((err: unknown) => {
        this.log.warn('lease left to expire', { key, err });
      });
    }
  }

  /** A contract is begun only when its calls must end within the lease. */
  private assertHeld(lease: Lease): void {
    lease.lost.signal.throwIfAborted();
    if (lease.validUntil - performance.now() < CALL_MS * 1.5) {
      throw new Error(`lease ${lease.key} was not extended in time`);
    }
  }

  private async heartbeat(lease: Lease, stop: AbortSignal): Promise<void> {
    for (;;) {
      try {
        await sleep(HEARTBEAT * 1000, undefined, { signal: stop });
      } catch {
        return;
      }
      const sentAt = performance.now();
      try {
        const extended = await this.redis.eval(SCRIPTS.extend, {
          keys: [lease.key],
          arguments: [lease.token, String(LOCK_TTL)],
        });
        if (extended !== 1) {
          lease.lost.abort(new Error(`lease ${lease.key} was lost`));
          return;
        }
        lease.validUntil = sentAt + LOCK_TTL * 1000;
      } catch (err) {
        this.log.warn('heartbeat failed', { key: lease.key, err });
      }
    }
  }
}
