import { setTimeout as sleep } from "node:timers/promises";
import Redis from "ioredis";
import { Mutex, TimeoutError } from "redis-semaphore";

const redis = new Redis(process.env.REDIS_URL ?? "redis://localhost:6379", {
  maxRetriesPerRequest: null,
});
redis.on("error", (err) => console.error("irrigation redis", err.message));

export interface Zone {
  id: string;
  valve: string;
  targetMoisture: number; // percent
  litresPerMinute: number;
}

export interface FieldHardware {
  moisture(zoneId: string): Promise<number>;
  openValve(valve: string): Promise<void>;
  closeValve(valve: string): Promise<void>;
}

export interface WaterLedger {
  usedToday(fieldId: string): Promise<number>;
  setUsedToday(fieldId: string, litres: number): Promise<void>;
}

export type IrrigationOutcome = { status: "done"; litres: number } | { status: "busy" };

const PULSE_MS = 60_000;
const MAX_PULSES = 30;

export class FieldIrrigator {
  private readonly hardware: FieldHardware;
  private readonly ledger: WaterLedger;

  constructor(hardware: FieldHardware, ledger: WaterLedger) {
    this.hardware = hardware;
    this.ledger = ledger;
  }

  /**
   * Waters the zones of a field one after the other. The pump has pressure for one open
   * valve, so only one controller may work on a field at a time.
   */
  async irrigate(fieldId: string, zones: Zone[], dailyLimit: number): Promise<IrrigationOutcome> {
    const mutex = new Mutex(redis, `irrigation:${fieldId}`, {
      lockTimeout: 30_000,
      refreshInterval: 10_000,
      acquireTimeout: 5_000,
      retryInterval: 250,
      onLockLost: (err) => {
        console.warn(`irrigation lock of field ${fieldId}: ${err.message}`);
      },
    });

    try {
      await mutex.acquire();
    } catch (err) {
      if (err instanceof TimeoutError) return { status: "busy" };
      throw err;
    }

    try {
      let litres = 0;
      for (const zone of zones) {
        litres += await this.waterZone(fieldId, zone, dailyLimit);
      }
      return { status: "done", litres };
    } finally {
      await mutex.release().catch((err) => console.warn(`lock of field ${fieldId} not released`, err));
    }
  }

  /** Opens the valve for a minute at a time until the soil is wet enough. */
  private async waterZone(fieldId: string, zone: Zone, dailyLimit: number): Promise<number> {
    let litres = 0;
    for (let pulse = 0; pulse < MAX_PULSES; pulse += 1) {
      const moisture = await this.hardware.moisture(zone.id);
      if (moisture >= zone.targetMoisture) break;

      const used = await this.ledger.usedToday(fieldId);
      if (used + zone.litresPerMinute > dailyLimit) break;

      await this.hardware.openValve(zone.valve);
      try {
        await sleep(PULSE_MS);
      } finally {
        await this.hardware.closeValve(zone.valve);
      }
      await this.ledger.setUsedToday(fieldId, used + zone.litresPerMinute);
      litres += zone.litresPerMinute;
    }
    return litres;
  }
}
