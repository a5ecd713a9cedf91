import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;

export type Recipe = { nutrient: 'A' | 'B' | 'pH-'; millilitres: number }[];

export interface Pump {
  /** Doses and waits for the flow meter; rejects after timeoutMs. */
  dose(bay: string, nutrient: string, millilitres: number, timeoutMs: number): Promise<number>;
}

export interface Probe {
  conductivity(bay: string, timeoutMs: number): Promise<number>;
}

export interface DosingDeps {
  redis: Client;
  pump: Pump;
  probe: Probe;
  maxConductivity: number;
}

const LEASE_MS = 90_000;
const STEP_MS = 8_000;
const MAX_STEPS = 5;

const unlock = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const bayLease = async (redis: Client, bay: string, patienceMs = 10_000) => {
  const key = `greenhouse:bay:${bay}:dosing`;
  const token = randomUUID();
  const until = Date.now() + patienceMs;

  while ((await redis.set(key, token, { NX: true, PX: LEASE_MS })) !== 'OK') {
    if (Date.now() > until) throw new Error(`bay ${bay} is being dosed`);
    await pause(150 + Math.random() * 250);
  }

  return {
    bay,
    [Symbol.asyncDispose]: async () => {
      try {
        await redis.eval(unlock, { keys: [key], arguments: [token] });
      } catch (e) {
        console.warn(`bay ${bay}: lease left to expire`, e);
      }
    },
  };
};

const applyRecipe = async ({ redis, pump, probe, maxConductivity }: DosingDeps, bay: string, recipe: Recipe) => {
  const dosed: Record<string, number> = {};
  for (const { nutrient, millilitres } of recipe.slice(0, MAX_STEPS)) {
    const ec = await probe.conductivity(bay, 2_000);
    if (ec >= maxConductivity) break;
    const actual = await pump.dose(bay, nutrient, millilitres, STEP_MS);
    dosed[nutrient] = (dosed[nutrient] ?? 0) + actual;
  }
  const journal = Object.entries(dosed);
  if (journal.length > 0) {
    await redis.xAdd(
      `greenhouse:bay:${bay}:journal`,
      '*',
      Object.fromEntries(journal.map(([n, ml]) => [n, ml.toFixed(1)])),
    );
  }
  return dosed;
};

/** One dosing round for a bay; the amounts that went in, by nutrient. */
export async function doseBay(deps: DosingDeps, bay: string, recipe: Recipe): Promise<Record<string, number>> {
  if (recipe.length > MAX_STEPS) throw new RangeError(`a recipe has at most ${MAX_STEPS} steps`);
  await using lease = await bayLease(deps.redis, bay);
  return applyRecipe(deps, lease.bay, recipe);
}

/** Rounds for a whole house, bay after bay. A bay that fails does not keep the others waiting. */
export async function doseHouse(deps: DosingDeps, plan: Map<string, Recipe>) {
  const report = new Map<string, Record<string, number> | Error>();
  for (const [bay, recipe] of plan) {
    try {
      report.set(bay, await doseBay(deps, bay, recipe));
    } catch (e) {
      report.set(bay, e instanceof Error ? e : new Error(String(e)));
    }
  }
  return report;
}
