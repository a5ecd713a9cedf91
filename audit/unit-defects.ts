import { isWork } from './called.js';
import type { Commands, Defect } from './defect.js';
import type { Said } from './said.js';
import type { FoundLock } from './understand.js';
import { FIRST_TTL_MS } from './units.js';
import { seconds } from './words.js';

/** A TTL by itself: no work is done in less, ms. */
const SHORTEST_MS = 60;
/** The same of work that calls other servers. */
const SHORTEST_OUTSIDE_MS = 300;

/** Where a TTL in seconds is handed over as milliseconds, or the reverse. */
export function unitDefects({ how, seen }: Pick<FoundLock, 'how' | 'seen'>, commands: Commands): Defect[] {
  const { fixedTtlMs, plan, releases } = how;
  const isOwnWork = plan.use === 'handler' || plan.use === 'script';
  if (!isOwnWork && fixedTtlMs === 1000 * FIRST_TTL_MS)
    return [
      asSeconds(
        'it is given its TTL in milliseconds and hands it to Redis as seconds (EX): a key that nobody deletes is there for a thousand times as long',
      ),
    ];
  if (!isOwnWork && fixedTtlMs === FIRST_TTL_MS / 1000)
    return [
      asMs(
        'it is given its TTL in seconds and hands it to Redis as milliseconds (PX): its key is gone after a thousandth of that, and another process gets the lock',
      ),
    ];
  const ofExtension = extensionUnitDefect(seen);
  if (ofExtension !== null) return [ofExtension];
  // One that is given its TTL may have a default of its own.
  const sent = fixedTtlMs === null ? (seen.bare?.trial?.sent ?? []) : [commands.acquire, ...commands.extensions];
  const first = sent.find((it) => it?.ttlMs != null && (it.operation === 'acquire' || it.operation === 'extend'));
  const ttlMs = first?.ttlMs ?? null;
  if (first === undefined || ttlMs === null) return [];
  const which = fixedTtlMs === null ? 'its TTL, where it is not given one,' : 'its TTL';
  const { ms, seconds: s } = seen.named;
  if (!isSeconds(first)) {
    // One that says for how long it is held knows what its TTL is; below 0, it counts by another clock.
    const saidMs = seen.alone.saidMs ?? -1;
    const isMeant = ms?.unitMs === 1 || (saidMs > 0 && saidMs <= ttlMs);
    const callsOthers = isOwnWork && releases && !how.renews && (seen.alone.trial?.works ?? []).some(isWork);
    const shortestMs = callsOthers ? SHORTEST_OUTSIDE_MS : SHORTEST_MS;
    if (ms?.unitMs !== 1000 && (ttlMs > shortestMs || isMeant)) return [];
    const called = ms?.unitMs === 1000 ? `, which is ${ms.name},` : '';
    return [
      asMs(
        `${which} is ${seconds(ttlMs)}: ${ttlMs}${called} is handed to Redis as milliseconds (PX), as if it were seconds; the key is gone before any work is done, and another process gets the lock`,
      ),
    ];
  }
  if (!releases || (s?.unitMs !== 1 && !isMsAsSeconds(ttlMs / 1000))) return [];
  const called = s?.unitMs === 1 ? `, which is ${s.name},` : '';
  const verb = ['set', 'script'].includes(first.verb) ? 'EX' : first.verb.toUpperCase();
  return [
    asSeconds(
      `${which} is ${seconds(ttlMs)}: ${ttlMs / 1000}${called} is handed to Redis as seconds (${verb}), as if it were milliseconds; after a crash nobody gets the lock for so long`,
    ),
  ];
}

/** Its extension gives its key a thousandth of its TTL, or a thousand times that. */
function extensionUnitDefect({ alone, extensionTtlMs: itsMs }: FoundLock['seen']): Defect | null {
  const ttlMs = alone.trial?.ttlMs ?? null;
  if (ttlMs === null || itsMs === null) return null;
  const sentence = `it gets its key for ${seconds(ttlMs)}, and extends that by ${seconds(itsMs)}`;
  if (itsMs * 1000 === ttlMs)
    return asMs(
      `${sentence}: what is in seconds is handed to Redis as milliseconds (PEXPIRE); the key is gone after the first extension, and another process gets the lock`,
    );
  if (itsMs === ttlMs * 1000)
    return asSeconds(
      `${sentence}: what is in milliseconds is handed to Redis as seconds (EXPIRE); after a crash nobody gets the lock for so long`,
    );
  return null;
}

/** Whether a command says its TTL in seconds. */
function isSeconds({ verb, words, ttlMs }: Said): boolean {
  const has = (it: number): boolean => words.slice(2).includes(String(it));
  if (verb === 'script') return ttlMs !== null && has(ttlMs / 1000) && !has(ttlMs);
  return verb === 'setex' || verb === 'expire' || (verb === 'set' && words.some((it) => /^ex$/i.test(it)));
}

/** A number of seconds that was meant as ms: more than an hour, in whole thousands, and no number of hours. */
function isMsAsSeconds(ttlS: number): boolean {
  return ttlS >= 5_000 && ttlS % 1000 === 0 && ttlS % 3600 !== 0;
}

function asSeconds(sentence: string): Defect {
  return { id: 'ms-as-seconds', sentence, fix: 'PX, or divide by 1000', brings: ['lifetime'], isShown: true };
}

function asMs(sentence: string): Defect {
  return { id: 'seconds-as-ms', sentence, fix: 'EX, or multiply by 1000', brings: ['belief', 'state'], isShown: true };
}
