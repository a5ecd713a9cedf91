import type { Defect } from './defect.js';
import type { Plan } from './plan.js';
import { CALL_TTL_MS, CONNECTED_MS } from './played.js';
import { calm, REST_MS, rehearse, use } from './rehearsal.js';
import { roleOf } from './roles.js';
import type { SourceFile } from './shapes.js';
import { SHARES_WATCH } from './shown-defects.js';
import type { Runnable } from './subject.js';
import type { Trial } from './trial.js';

/** From one call to the other, ms: the first has not had its first answer. */
const SOON_MS = 0.5;

/** Whether two calls of a process that are made at once watch keys over one connection: the EXEC of one ends the WATCH of the other. */
export async function sharesWatch({ bench, hosts, how }: Runnable, plan: Plan): Promise<Defect | null> {
  const { texts, sources } = bench.program;
  if (!texts.some((it) => /\bwatch\(/i.test(it)) || hasOwnConnection(plan, texts) || isHanded(plan, sources))
    return null;
  const ttlMs = how.fixedTtlMs ?? CALL_TTL_MS;
  // What the first call of a process sends may wait for its connection: it is about something else.
  const first = { ...use(10, ttlMs, 1), resources: ['b'] };
  const uses = [first, ...[CONNECTED_MS, CONNECTED_MS + SOON_MS].map((atMs) => use(atMs, ttlMs, 1))];
  const schedule = calm(1, [uses], (CONNECTED_MS + REST_MS) * 1000);
  const attempts = await rehearse(bench, hosts, how, schedule, { naturally: true, apart: true, planOf: () => plan });
  const [, one, two] = attempts.map(({ trial }) => trial);
  if (one == null || two == null || one.loops) return null;
  return areOverOne([...one.watches, ...two.watches]) ? SHARES_WATCH : null;
}

/** Makes a connection for one call. */
const MAKES_CONNECTION = /\.duplicate\(|isolat/i;

/** Whether a class may be handed a connection of its own by the file, which makes it. */
function hasOwnConnection({ path }: Plan, texts: readonly string[]): boolean {
  const isMade = path.some(({ name }) => texts.some((it) => it.includes(`new ${name}(`)));
  return isMade && texts.some((it) => MAKES_CONNECTION.test(it));
}

/** Whether each call is handed its connection, which may be its own. */
function isHanded({ take, path }: Plan, sources: readonly SourceFile[]): boolean {
  const name = take || path.at(-1)?.name;
  return sources.some(({ shapes }) =>
    shapes.some((it) => it.name === name && it.parameters.some((parameter) => roleOf(parameter) === 'client')),
  );
}

/**
 * Whether over one connection keys are watched twice before a transaction changes one of them, and then another transaction does. A client
 * that sends commands together may send those of one call for the other.
 */
function areOverOne(sent: Trial['watches']): boolean {
  return [...new Set(sent.map(({ over }) => over))].some((connection) => {
    const own = sent.filter(({ over }) => over === connection).map(({ said }) => said);
    const changes = own.filter(({ inMulti }) => inMulti === true);
    const firstMs = Math.min(...changes.map(({ atMs }) => atMs));
    const isAgain = changes.some(
      ({ verb, key }, i) => changes.findIndex((it) => it.verb === verb && it.key === key) < i,
    );
    return isAgain && own.filter(({ verb, atMs }) => verb === 'watch' && atMs < firstMs).length > 1;
  });
}
