import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisClientType } from 'redis';

interface Prescription {
  id: string;
  drug: string;
  unitsAllowed: number;
  unitsDispensed: number;
}

interface PrescriptionRepository {
  load(id: string, opts: { signal: AbortSignal }): Promise<Prescription>;
  setDispensed(id: string, units: number, opts: { signal: AbortSignal }): Promise<void>;
}

interface DrugCabinet {
  openDrawer(drug: string, units: number, opts: { signal: AbortSignal }): Promise<void>;
}

interface Logger {
  info(msg: string, ctx?: object): void;
  warn(msg: string, ctx?: object): void;
}

const TTL_MS = 20_000;
const WORK_MS = 12_000;
const WAIT_MS = 3_000;

// Names the holder in redis-cli; the UUID tells a restarted pod from its predecessor.
const OWNER = `${hostname()}:${randomUUID()}`;

// When the connection drops after Redis ran the script but before the reply came in,
// the client's next attempt finds the value it wrote itself and is told so.
const ACQUIRE = `
local holder = redis.call('GET', KEYS[1])
if holder == false then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
if holder == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class DispensingService {
  private readonly redis: RedisClientType;
  private readonly prescriptions: PrescriptionRepository;
  private readonly cabinet: DrugCabinet;
  private readonly log: Logger;

  constructor(redis: RedisClientType, prescriptions: PrescriptionRepository, cabinet: DrugCabinet, log: Logger) {
    this.redis = redis;
    this.prescriptions = prescriptions;
    this.cabinet = cabinet;
    this.log = log;
  }

  /** HTTP handlers of the ward terminals end up here. */
  async dispense(prescriptionId: string, units: number, nurseId: string): Promise<void> {
    const key = `rx:${prescriptionId}:dispense`;
    const budget = await this.lock(key);
    try {
      const signal = AbortSignal.timeout(budget);
      const rx = await this.prescriptions.load(prescriptionId, { signal });
      if (rx.unitsDispensed + units > rx.unitsAllowed) {
        throw new Error(`prescription ${rx.id} allows ${rx.unitsAllowed - rx.unitsDispensed} more units`);
      }
      // Booked before the drawer opens; a drawer that jams is reversed by the pharmacy.
      await this.prescriptions.setDispensed(rx.id, rx.unitsDispensed + units, { signal });
      await this.cabinet.openDrawer(rx.drug, units, { signal });
      this.log.info('dispensed', { rx: rx.id, units, nurseId });
    } finally {
      await this.redis.eval(RELEASE, { keys: [key], arguments: [OWNER] }).catch((err: unknown) => {
        this.log.warn('dispense lock left to expire', { key, err });
      });
    }
  }

  /** Waits for the lock and returns the milliseconds the work may take. */
  private async lock(key: string): Promise<number> {
    const giveUpAt = performance.now() + WAIT_MS;
    do {
      const sentAt = performance.now();
      const granted = await this.redis.eval(ACQUIRE, { keys: [key], arguments: [OWNER, String(TTL_MS)] });
      if (granted === 1) {
        const budget = Math.floor(WORK_MS - (performance.now() - sentAt));
        if (budget <= 0) throw new Error('dispense lock came too late, please repeat');
        return budget;
      }
      await sleep(100 + Math.random() * 100);
    } while (performance.now() < giveUpAt);
    throw new Error('this prescription is being dispensed at another terminal');
  }
}
