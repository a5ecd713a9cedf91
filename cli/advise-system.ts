import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseSystem } from '../advise/parse-system.js';
import type { Description, System } from '../advise/system.js';
import { InputError, show } from '../scenarios/input-error.js';
import { isPlainObject } from '../scenarios/plain-data.js';
import { readData } from './config.js';
import type { AdviseFlags } from './flags.js';
import type { Io } from './io.js';

/** A system, what it was read from, and what is to be said of that. */
export interface Described {
  readonly system: System;
  readonly description: Description;
  readonly notes: readonly string[];
  /** The file that it is in, if there is one that says all of it. */
  readonly file: string | null;
}

/**
 * A system from a file, running nodes, answers and flags; each of them changes what those before it say. `null`: the person
 * has interrupted the questions.
 *
 * @throws InputError if there is nothing to go by, or something is wrong with it.
 */
export async function describeSystem(file: string | undefined, flags: AdviseFlags, io: Io): Promise<Described | null> {
  const written = file === undefined ? {} : await readFile(file, io.cwd);
  const { looked, notes } = await look(flags, io);
  const said = sayings(flags);
  const isNothing = file === undefined && flags.redis === undefined && Object.keys(said).length === 0;
  let asked: Description | null = {};
  if (isNothing) {
    if (io.stdin?.isTTY !== true || io.stderr.isTTY !== true || flags.json)
      throw new InputError(
        'which system? Name a file (lockstep advise system.json), or describe it by flags; see --help',
      );
    const { interview } = await import('./advise-interview.js');
    asked = await interview(io);
    if (asked === null) return null;
  }
  const description = [written, looked, asked, said].reduce(merged, {});
  const system = parseSystem(description, file);
  const isFile = Object.keys(said).length === 0 && flags.redis === undefined;
  return { system, description, notes, file: isFile ? (file ?? null) : null };
}

async function readFile(file: string, cwd: string): Promise<Description> {
  const path = resolve(cwd, file);
  if (!existsSync(path)) throw new InputError(`${show(file)}: there is no such file; see --help for what it holds`);
  const data = await readData(path, file);
  // Its own error is as good as that of the grammar.
  if (!isPlainObject(data)) parseSystem(data, file);
  return data as Description;
}

async function look(flags: AdviseFlags, io: Io): Promise<{ looked: Description; notes: readonly string[] }> {
  if (flags.redis === undefined) return { looked: {}, notes: [] };
  const { lookAtNodes } = await import('./advise-redis.js');
  return lookAtNodes(flags.redis, io);
}

/** What flags say, as a description. */
function sayings(flags: AdviseFlags): Description {
  const { nodes, persistence, restart, supervisor, failover, atOnce, drift, steps } = flags;
  const parts: Record<string, Record<string, unknown> | number | undefined> = {
    nodes: { count: nodes, persistence, restart, supervisor, failover, unit: flags.unit, powerLoss: flags.powerLoss },
    atOnce,
    clocks: { drift, steps },
    pauses: { process: flags.pause },
    network: { most: flags.latency, reordering: flags.reordering },
    client: { library: flags.library, ttl: flags.ttl, nodeTimeout: flags.nodeTimeout },
    work: { longest: flags.work, extends: flags.extends },
    resource: { checksToken: flags.checksToken },
  };
  const given: Record<string, unknown> = {};
  for (const [name, part] of Object.entries(parts)) {
    if (part === undefined) continue;
    const fields = typeof part === 'number' ? part : present(part);
    if (fields !== null) given[name] = fields;
  }
  return given;
}

/** The fields that have a value; `null` if none has. */
function present(fields: Readonly<Record<string, unknown>>): Record<string, unknown> | null {
  const some = Object.entries(fields).filter(([, value]) => value !== undefined);
  return some.length === 0 ? null : Object.fromEntries(some);
}

/** The first with what the second says in its place; of groups of nodes, each gets what is said of nodes. */
function merged(first: Description, second: Description): Description {
  const both: Record<string, unknown> = { ...first };
  for (const [name, value] of Object.entries(second)) both[name] = mergedField(both[name], value);
  return both;
}

function mergedField(before: unknown, after: unknown): unknown {
  // What nodes know of themselves, beside what is said of all of them.
  if (Array.isArray(after) && isPlainObject(before)) {
    const { count: _, ...rest } = before;
    return after.map((group: unknown) => (isPlainObject(group) ? { ...rest, ...group } : group));
  }
  if (!isPlainObject(after)) return after;
  if (isPlainObject(before)) return { ...before, ...after };
  if (!Array.isArray(before)) return after;
  const { count, ...rest } = after;
  if (count !== undefined)
    throw new InputError('--nodes: there are groups of nodes already; leave it out, or describe one group');
  return before.map((group: unknown) => (isPlainObject(group) ? { ...group, ...rest } : group));
}
