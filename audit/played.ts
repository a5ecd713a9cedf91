import { current } from '../libraries/runtime/owner.js';
import type { Fault } from '../scenarios/index.js';
import { isPrivate, type Plan } from './plan.js';
import { type Attempt, calm, REST_MS, rehearse, use, type Ways } from './rehearsal.js';
import type { Runnable } from './subject.js';

/** What a call is given for a TTL where it is not fixed, ms. */
export const CALL_TTL_MS = 2_000;
/** From one call to the next, ms: the first is over by then. */
export const GAP_MS = 2_000;
/** By then a client is connected, ms. */
export const CONNECTED_MS = 500;

/** Of the time that a TTL lasts, what is later is over. */
export const OVER = 1.02;

/** A call of a function. */
export interface Call {
  readonly plan: Plan;
  readonly atMs: number;
}

/** What became of each call, in their order. */
export type Played = readonly (Attempt | undefined)[];

/** Each call by a process of its own, in their order. */
export async function played(
  { bench, hosts, how }: Runnable,
  calls: readonly Call[],
  faults: readonly Fault[] = [],
): Promise<Played> {
  const lastMs = Math.max(...calls.map(({ atMs }) => atMs));
  const schedule = calm(
    how.nodes,
    calls.map(({ atMs }) => [use(atMs, how.fixedTtlMs ?? CALL_TTL_MS, 1)]),
    (lastMs + REST_MS) * 1000,
  );
  const planOf = (process: string): Plan => calls[Number(process.slice(1)) - 1]?.plan ?? how.plan;
  const ways = { naturally: true, planOf };
  const attempts = await rehearse(bench, hosts, how, { ...schedule, faults: [...faults] }, ways);
  return calls.map((_, i) => attempts.find(({ client }) => client === `c${i + 1}`));
}

/** Of these names, those after which the lock is named; none where it has another name in each call. */
export async function namesInLock(subject: Runnable, plan: Plan, names: readonly string[]): Promise<readonly string[]> {
  const calls = [[], [], ...names.map((it) => [it])].map((it, i) => ({
    plan: { ...plan, differs: new Set(it) },
    atMs: 10 + i,
  }));
  const [key, same, ...others] = (await played(subject, calls)).map((it) => it?.trial?.key);
  return names.filter((_, i) => same === key && others[i] !== key);
}

/** What the clock of the process shows that runs now, ms. */
export function nowMs(): number {
  return current.owner?.wallMs() ?? Number.NaN;
}

/**
 * Calls a function once.
 *
 * @param forMs - What it takes, besides what is usual. Default: 0.
 */
export async function once(
  { bench, hosts, how }: Runnable,
  plan: Plan,
  ways: Ways,
  forMs: number = 0,
): Promise<Attempt | undefined> {
  const ttlMs = how.fixedTtlMs ?? 0;
  const schedule = calm(how.nodes, [[use(10, ttlMs, 1)]], (4 * ttlMs + 10 * REST_MS + forMs) * 1000);
  const [attempt] = await rehearse(bench, hosts, how, schedule, { ...ways, naturally: true, planOf: () => plan });
  return attempt;
}

/** The TTL of the lock that a function takes, ms: that of all, or what it asks for; `Infinity` where it takes none. */
export async function ttlOf(subject: Runnable, plan: Plan): Promise<number> {
  return subject.how.fixedTtlMs ?? (await once(subject, plan, {}))?.trial?.ttlMs ?? Number.POSITIVE_INFINITY;
}

/** Whether nobody but a timer of the file calls a function: its calls follow each other. */
export function isOfTimer({ bench: { program } }: Runnable, plan: Plan): boolean {
  return (
    isPrivate(program, plan) &&
    program.texts.some((it) => new RegExp(String.raw`\bset(?:Interval|Timeout)\([^\n]*\b${plan.take}\(`).test(it))
  );
}
