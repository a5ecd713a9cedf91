import { current } from '../libraries/runtime/owner.js';
import type { Fault } from '../scenarios/index.js';
import { isWork } from './called.js';
import { later } from './load.js';
import type { Plan } from './plan.js';
import { calm, cutOff, heldNow, REST_MS, rehearse, use } from './rehearsal.js';
import { holdsMessages } from './stored.js';
import type { Runnable } from './subject.js';
import { CAMPAIGNS } from './terms.js';
import type { Trial } from './trial.js';

/** What a leader does that was paused, or cut off, until another one led. */
export interface Overtaken {
  /** It cannot renew its key, and goes on with its work. */
  readonly leadsOn: boolean;
  /** Its renewal is refused, and it goes on with its work. */
  readonly ignoresRefusal: boolean;
  /** Its renewal is granted though the key is another's: the verb of that. */
  readonly renewsAny: string | null;
}

/** What campaigns again and again. */
const REPEATS = /\bset(?:Interval|Timeout)\s*\(|\bwhile\s*\(/;

/** A leader that looks for work in a loop finds some as often as this times `MOST_CALLS`: until it is no longer looked at. */
const MANY = 30;

/** The first leader is paused so many TTLs after the beginning, and is back after so many; it is looked at until so many have passed. */
const PAUSED = 0.6;
const BACK = 2.3;
const END = 5.5;
/** A renewal comes within this share of the TTL. */
const RENEWED_SHARE = 1.05;

/** The second leader begins so many TTLs after the beginning, and waits for the lock. */
const ASKS = 0.2;
/** A second worker, which waits for no lock, gets the same message so many TTLs after the beginning: the key has expired. */
const AGAIN = 1.8;

/**
 * Lets a leader that renews its key by a timer, or a worker that gets a message from a list, be paused for longer than its TTL. Another
 * process leads then, or gets the same message, and keeps its key for as long as it is looked at. One whose own election is not what was
 * recognized is also cut off from its node.
 */
export async function overtakenOf({ bench, hosts, how }: Runnable): Promise<Overtaken> {
  const none: Overtaken = { leadsOn: false, ignoresRefusal: false, renewsAny: null };
  const ttlMs = how.fixedTtlMs;
  if (ttlMs === null || how.nodes > 1 || !bench.program.texts.some((it) => REPEATS.test(it))) return none;
  const [atUs = 0, backUs = 0] = [PAUSED, BACK].map((share) => Math.round(share * ttlMs * 1000));
  const paused: Fault = { kind: 'pause', process: 'c1', atUs, forUs: backUs - atUs };
  const cut = cutOff('c1', 1, PAUSED * ttlMs, END * ttlMs);
  const tried = electionsIn({ bench, how }).flatMap((plan) =>
    (plan === how.plan ? [paused] : [paused, cut]).map((fault) => ({ plan, fault })),
  );
  for (const { plan, fault } of tried) {
    const isItself = !how.campaigns && plan.take === how.plan.take;
    // What does its work by itself is not told to stop, but for what campaigns until then.
    const holdMs = how.campaigns || isItself ? END * ttlMs : 1;
    const isWorker = plan.use === 'script' && holdsMessages(bench.stored);
    const uses = [[use(10, ttlMs, holdMs)], [use((isWorker ? AGAIN : ASKS) * ttlMs, ttlMs, holdMs)]];
    const schedule = calm(1, uses, (END * ttlMs + REST_MS) * 1000);
    const worked: Record<string, number[]> = { c1: [], c2: [] };
    const heard = (_: readonly unknown[], name: string): void => {
      const { owner } = current;
      if (owner !== null && isWork(name)) worked[owner.name]?.push(owner.wallMs());
    };
    const takes = (): Promise<void> => later(heldNow(bench) === null ? 0 : END * ttlMs);
    const elements = plan === how.plan ? 1 : MANY;
    const ways = { naturally: true, heard, elements, planOf: () => plan, ...(isWorker ? { takes } : {}) };
    const { stored } = bench;
    if (isWorker) bench.stored = [...stored, ...stored.filter(([verb]) => verb === 'RPUSH')];
    const attempts = await rehearse(bench, hosts, how, { ...schedule, faults: [fault] }, ways).finally(() => {
      bench.stored = stored;
    });
    const [first, next] = ['c1', 'c2'].map((name) => attempts.find(({ client }) => client === name));
    const [own, other] = [first?.trial, next?.trial];
    if (first === undefined || own?.isGranted !== true || other == null) continue;
    const [backMs = 0, endMs = 0] = [BACK, END].map((share) => first.askedMs - 10 + share * ttlMs);
    if (!isKept(other, backMs, endMs, ttlMs)) continue;
    const any = own.sent.find(
      (it) => it.operation === 'extend' && it.key === own.key && !it.compares && it.atMs > backMs,
    );
    if (any !== undefined) return { ...none, renewsAny: any.verb.toUpperCase() };
    // Until its next renewal it cannot know.
    const isLater = (atMs: number): boolean => atMs > backMs + ttlMs && atMs < endMs;
    // What campaigns again calls what it needs for that.
    const worksOn = !isItself && ['c1', 'c2'].every((name) => worked[name]?.some(isLater));
    const leadsOn = how.campaigns && how.sign?.isKept !== true && first.believes;
    if (worksOn || leadsOn) return { ...none, ...(fault === paused ? { ignoresRefusal: true } : { leadsOn: true }) };
  }
  return none;
}

/** How processes take part in the election, where a timer campaigns. */
function electionsIn({ bench, how }: Pick<Runnable, 'bench' | 'how'>): readonly Plan[] {
  const { plan } = how;
  if (plan.use === 'script' || how.campaigns) return [plan];
  if (plan.use !== 'handler') return [];
  const { shapes } = bench.program;
  const { className = null } = shapes.find(({ name, className: of }) => name === plan.take && of !== null) ?? {};
  const begin = shapes.filter((it) => it.className === className && CAMPAIGNS.test(it.name));
  return begin.map(({ name }) => ({ ...plan, take: name }));
}

/** Whether a process has its key between two instants: it renews that in time, and does not delete it. */
function isKept({ sent, key }: Trial, fromMs: number, toMs: number, ttlMs: number): boolean {
  const own = sent.filter((it) => it.key === key && (it.operation === 'extend' || it.operation === 'acquire'));
  const times = [...own.map(({ atMs }) => atMs), toMs].filter((atMs) => atMs <= toMs);
  const before = times.filter((atMs) => atMs < fromMs);
  if (before.length === 0 || sent.some(({ operation, atMs }) => operation === 'release' && atMs < toMs)) return false;
  const all = times.slice(before.length - 1);
  return all.every((atMs, i) => i === 0 || atMs - (all[i - 1] ?? atMs) < RENEWED_SHARE * ttlMs);
}
