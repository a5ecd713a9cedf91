import { randomUUID } from "node:crypto";
import type { createClient } from "redis";

type RedisClient = ReturnType<typeof createClient>;

const LEASE_MS = 20_000;
const WORK_MS = 12_000;

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0
`;

/** Exclusive right to write the medication chart of a ward. Use with `await using`. */
export class WardLease implements AsyncDisposable {
  readonly signal: AbortSignal;
  private readonly client: RedisClient;
  private readonly key: string;
  private readonly token: string;

  private constructor(client: RedisClient, key: string, token: string, signal: AbortSignal) {
    this.client = client;
    this.key = key;
    this.token = token;
    this.signal = signal;
  }

  static async take(client: RedisClient, ward: string): Promise<WardLease | null> {
    const key = `ward:${ward}:medication-lease`;
    const token = randomUUID();
    const signal = AbortSignal.timeout(WORK_MS);
    const reply = await client.set(key, token, { NX: true, PX: LEASE_MS });
    return reply === "OK" ? new WardLease(client, key, token, signal) : null;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.client.eval(RELEASE, { keys: [this.key], arguments: [this.token] });
    } catch (err) {
      console.warn(`lease ${this.key} not released, it ends by itself`, err);
    }
  }
}

export interface Dose {
  prescriptionId: string;
  slot: string; // e.g. "2025-03-04T08:00"
  milligrams: number;
}

export interface Chart {
  ward: string;
  version: number;
  administered: Array<Dose & { nurseId: string; at: string }>;
}

export interface ChartStore {
  load(ward: string, opts: { signal: AbortSignal }): Promise<Chart>;
  /** UPDATE ... WHERE version = expectedVersion; false if no row matched. */
  save(chart: Chart, opts: { expectedVersion: number; signal: AbortSignal }): Promise<boolean>;
}

export type RoundResult =
  | { status: "recorded"; recorded: Dose[]; alreadyGiven: Dose[] }
  | { status: "busy" }
  | { status: "conflict" };

/** The tablet keeps the round and sends it again on "busy" and "conflict". */
export async function recordRound(
  client: RedisClient,
  charts: ChartStore,
  ward: string,
  nurseId: string,
  doses: Dose[],
): Promise<RoundResult> {
  await using lease = await WardLease.take(client, ward);
  if (!lease) return { status: "busy" };

  const chart = await charts.load(ward, { signal: lease.signal });
  const given = new Set(chart.administered.map((d) => `${d.prescriptionId}@${d.slot}`));
  const recorded: Dose[] = [];
  const alreadyGiven: Dose[] = [];
  for (const dose of doses) {
    const id = `${dose.prescriptionId}@${dose.slot}`;
    (given.has(id) ? alreadyGiven : recorded).push(dose);
    given.add(id);
  }
  if (recorded.length === 0) return { status: "recorded", recorded, alreadyGiven };

  const at = new Date().toISOString();
  const next: Chart = {
    ...chart,
    version: chart.version + 1,
    administered: [...chart.administered, ...recorded.map((d) => ({ ...d, nurseId, at }))],
  };
  lease.signal.throwIfAborted();
  const saved = await charts.save(next, { expectedVersion: chart.version, signal: lease.signal });
  return saved ? { status: "recorded", recorded, alreadyGiven } : { status: "conflict" };
}
