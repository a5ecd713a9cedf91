import { replayLibraries } from '../libraries/run.js';
import type { Schedule } from '../scenarios/index.js';
import { InputError } from '../scenarios/input-error.js';
import { exportsOf, insideOf, keptOf } from './evaluation.js';
import type { Given } from './given.js';
import type { Hosts } from './hosts.js';
import { type Bench, beginIn, loadIn, makeFor } from './load.js';
import { isPrivate, type Plan, takerIn } from './plan.js';
import { firstLineOf, type Program } from './program.js';
import { MOST_NODES, reasonOf } from './refusal.js';
import { calm, factoryFor, use } from './rehearsal.js';
import type { Hints } from './result.js';
import { MAKING_MS, openersIn, Surface } from './surface.js';
import { CAMPAIGNS } from './terms.js';
import { FIRST_TTL_MS } from './units.js';

/* The ways in which a file can be used: by what it exports, what it has handed over for later, what is inside it, or by loading it. */

const SCRIPT: Plan = { path: [], use: 'script', take: '', give: null, extend: null };
/** When its client has connected, it begins by itself what it exports: `redis.once('ready', () => leader.start())`. */
const BEGINS_CONNECTED = /\.on(?:ce)?\(\s*['"](?:ready|connect)['"]\s*,[^\n]*\.\w+\(\)\s*\)/;
const NO_LOCK = { acquire: () => null, release: () => undefined };

/** The ways in which a file can be used, the likeliest first. @throws InputError for one that cannot be loaded. */
export async function plansIn(bench: Bench, hosts: Hosts, isBegun: boolean): Promise<Plan[]> {
  const plans: Plan[] = [];
  let problem: unknown = null;
  const schedule: Schedule = calm(MOST_NODES, [[use(0, FIRST_TTL_MS, 1)]], 5_000_000);
  const subject = factoryFor(
    bench.program.name,
    async ({ addresses }) => {
      try {
        const late = new Promise<null>((resolve) => setTimeout(() => resolve(null), MAKING_MS));
        const loaded = await Promise.race([loadIn(bench, addresses), late]);
        if (loaded === null) {
          plans.push(SCRIPT);
          return NO_LOCK;
        }
        const given: Given = { ...loaded.given, key: 'a', ttlMs: FIRST_TTL_MS, token: 'token', unitMs: 1 };
        const begin = isBegun ? openersIn(exportsOf(loaded.exports)) : [];
        await beginIn(loaded, begin, given).catch(() => {});
        const add = async (found: ReadonlyMap<string, unknown>, from: 'export' | 'inside'): Promise<void> => {
          const surface = new Surface(loaded.shapes, makeFor(loaded, given));
          plans.push(...(await surface.plansFor(found, from, begin)));
        };
        await add(exportsOf(loaded.exports), 'export');
        await add(new Map(Object.entries(keptOf(loaded.exports))), 'inside');
        if (exportsOf(loaded.exports).size === 0) plans.push(SCRIPT);
        const exported = plans.length;
        await add(new Map(Object.entries(insideOf(loaded.exports))), 'inside');
        if (bench.program.texts.some((it) => BEGINS_CONNECTED.test(it))) plans.unshift(SCRIPT);
        // What is inside may be a part of what it has begun.
        else if (plans.some((it) => callsItself(bench.program, it))) plans.splice(exported, 0, SCRIPT);
      } catch (error) {
        problem = error;
      }
      return NO_LOCK;
    },
    bench,
    hosts,
  );
  try {
    await replayLibraries(subject, schedule);
  } catch (error) {
    problem ??= error;
  }
  if (plans.length > 0 || problem === null) {
    // What is opened calls its own private methods, and would do twice what these do.
    const all = plans
      .filter((it) => !callsItself(bench.program, it))
      .map((it) => (it.open && isPrivate(bench.program, it) ? { ...it, open: null } : it));
    return [...all.filter((it) => !onlyReads(it)), ...all.filter(onlyReads)];
  }
  const { name } = bench.program;
  if (problem instanceof InputError) throw problem;
  throw new InputError(reasonOf(problem, name) ?? `${name} throws as it is loaded: ${firstLineOf(problem)}`, {
    cause: problem,
  });
}

/**
 * Whether a file calls by itself what does work of its own: `election.run()`. Another object of that class would do that beside it; so would
 * a private method of the object that it has called.
 */
function callsItself(program: Program, plan: Plan): boolean {
  const { use, path, take } = plan;
  if (use !== 'handler' && !(use === 'pair' && CAMPAIGNS.test(take))) return false;
  const calls = (what: string): boolean => {
    const begins = new RegExp(`^(?:(?:await|void)\\s+)?${what}\\(`, 'm');
    return program.texts.some((it) => begins.test(it));
  };
  const made = path.find(({ kind }) => kind === 'new');
  if (made !== undefined && calls(`[\\w.]+\\.${take}`)) return true;
  if (take === '' || !isPrivate(program, plan)) return false;
  const makes = new RegExp(`\\b(\\w+)\\s*=\\s*new ${made?.name}\\(`);
  const objects =
    made === undefined
      ? path.slice(-1).map(({ name }) => name)
      : program.texts.flatMap((it) => makes.exec(it)?.[1] ?? []);
  return objects.some((it) => calls(`${it}\\.\\w+`));
}

/** Whether it does work of its own that only reads, by its name: several may do that at once. */
function onlyReads(plan: Plan): boolean {
  return plan.use === 'handler' && /^(?:read|view|peek)(?![a-z])/.test(takerIn(plan));
}

/** Those of them that were asked for; all where none was. @throws InputError where the file has no such function. */
export function chosen(plans: readonly Plan[], { acquire, release }: Hints, name: string): Plan[] {
  if (acquire === undefined) return plans.map((it) => (release === undefined ? it : { ...it, give: release }));
  const named = plans.filter((it) => takerIn(it) === acquire);
  if (named.length === 0)
    throw new InputError(
      `--acquire: ${name} has no function ${acquire}; it has ${[...new Set(plans.map(takerIn))].join(', ') || 'none'}`,
    );
  return named.map((it) => (release === undefined || it.use === 'with' ? it : { ...it, use: 'pair', give: release }));
}
