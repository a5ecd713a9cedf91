import { randomInt } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type HistoryVerdict, verifyHistory } from '../properties/history/verify.js';
import { type ChaosClient, type ChaosPhase, type ChaosResult, runChaos } from '../real/chaos/index.js';
import type { OtherServer } from '../real/provisioner/index.js';
import { InputError } from '../scenarios/input-error.js';
import { plural } from '../text/format.js';
import { serverCommand } from '../wire/index.js';
import type { SimulatedEdition } from './chaos-words.js';
import { Exit, type ExitCode } from './exit-codes.js';
import { type Io, writeJson } from './io.js';
import { ProgressLine } from './progress.js';
import { findingLines } from './verify.js';

/** Flags of `chaos`. */
export interface ChaosFlags {
  /** µs, of the part within the assumptions; a minute if left out. */
  readonly duration?: number;
  readonly nodes?: number | undefined;
  /** What the faults come from; drawn if left out. */
  readonly seed?: string | undefined;
  readonly clients?: readonly ChaosClient[] | undefined;
  readonly simulated?: readonly SimulatedEdition[] | undefined;
  readonly json?: boolean;
}

/** Histories are left below the folder that the command runs in. */
const FOLDER = '.lockstep/chaos';
const MOST_SHOWN = 3;
const DEFAULT_NODES = 5;
const DEFAULT_US = 60_000_000;
/** The part outside the assumptions needs one violation, not many, ms. */
const MOST_OUTSIDE_MS = 60_000;
/** One process for each client at least. */
const FEWEST_CLIENTS = 6;
/** Short enough to be typed again. */
const MOST_SEED = 1_000_000;

/** One part of a chaos run with what its history shows. */
type Part = ChaosResult & { readonly history: string; readonly plan: string } & Omit<HistoryVerdict, 'violations'> & {
    readonly violations: HistoryVerdict['violations'];
  };

/**
 * Injects random faults into real nodes and clients, and checks the history. Within what the lock assumes nothing may be
 * violated, left behind or stuck. Outside, where a majority of the nodes loses its data at once, a violation must be found, or
 * the first part would prove nothing.
 */
export async function chaos(flags: ChaosFlags, io: Io): Promise<ExitCode> {
  const seed = flags.seed ?? String(randomInt(MOST_SEED));
  const within = await runPart('within', { ...flags, seed }, io);
  const outside = within.interrupted ? null : await runPart('outside', { ...flags, seed }, io);
  if (flags.json) writeJson(io, 'lockstep.chaos/1', { within, outside });
  else io.stdout.write(`${[within, outside].flatMap((part) => (part === null ? [] : partLines(part))).join('\n')}\n`);
  if (within.interrupted || outside === null || outside.interrupted) return Exit.interrupted;
  if (within.verdict === 'violated' || (within.keysLeft ?? 0) > 0 || within.stuck.length > 0) return Exit.violated;
  return within.verdict === 'passed' && outside.verdict === 'violated' ? Exit.ok : Exit.inconclusive;
}

async function runPart(
  faultModel: ChaosPhase,
  {
    duration: forUs = DEFAULT_US,
    nodes = DEFAULT_NODES,
    seed,
    clients = ['ioredis@5'],
    simulated = [],
  }: ChaosFlags & { readonly seed: string },
  io: Io,
): Promise<Part> {
  if (simulated.length > nodes)
    throw new InputError(`--simulated names ${simulated.length} nodes, but there are ${plural(nodes, 'node')}`);
  const line = new ProgressLine(io);
  const history = join(FOLDER, `${faultModel}.jsonl`);
  const plan = join(FOLDER, `${faultModel}.plan.json`);
  const historyPath = join(io.cwd, history);
  const result = await runChaos({
    faultModel,
    seed,
    historyPath,
    planPath: join(io.cwd, plan),
    forMs: faultModel === 'within' ? forUs / 1000 : Math.min(forUs / 1000, MOST_OUTSIDE_MS),
    signal: io.signal,
    nodes,
    libraries: clients,
    clients: Math.max(FEWEST_CLIENTS, clients.length),
    others: simulated.map(serverOf),
    onProgress: ({ doneMs, forMs, calls, faults }) =>
      line.show(
        `${faultModel} the assumptions: ${seconds(Math.min(doneMs, forMs))} of ${seconds(forMs)}, ${plural(calls, 'call')}, ${plural(faults, 'fault')}`,
      ),
  });
  line.end();
  const lines: string[] = [];
  for await (const text of createInterface({ input: createReadStream(historyPath) })) lines.push(text);
  return { ...result, history, plan, ...verifyHistory(lines) };
}

/** A simulated server as a process of its own. */
function serverOf(name: SimulatedEdition): OtherServer {
  const [flavour, version = ''] = name.split('@');
  const edition = { flavour: flavour === 'valkey' ? 'valkey' : 'redis', version } as const;
  return { name: `simulated ${flavour} ${version}`, command: serverCommand(edition) };
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1000)} s`;
}

function partLines(part: Part): string[] {
  const { faultModel, verdict, violations, faults, keysLeft, stuck, history } = part;
  const expected = faultModel === 'within' ? 'passed' : 'violated';
  const mark = verdict === expected && (keysLeft ?? 0) === 0 && stuck.length === 0 ? '✓' : '✗';
  const struck = Object.entries(faults).map(([name, count]) => `${count} × ${name}`);
  const row = (name: string, text: string): string => `  ${name.padEnd(13)} ${text}`;
  return [
    `${mark} ${faultModel} the assumptions: ${verdict}${violations.length > 0 ? `, ${plural(violations.length, 'violation')}` : ''}`,
    row(
      'nodes',
      `${part.nodes}${part.skewed ? ', with clocks of their own' : faultModel === 'within' ? ', clocks not skewed: no libfaketime' : ''}`,
    ),
    row(
      'clients',
      `${part.clients} processes, TTL ${part.ttlMs} ms, ${part.seconds} s${part.interrupted ? ', interrupted' : ''}`,
    ),
    row('operations', `${part.operations} recorded, ${part.acquired} locks acquired`),
    ...struckRows(Object.entries(part.acquiredBy).map(([name, count]) => `${count} by ${name}`)).map((text, i) =>
      row(i === 0 ? 'acquired' : '', text),
    ),
    row(
      'seed',
      `${part.seed}: ${part.planned} faults planned, begun late by ${part.lateMs.median} ms (median), ${part.lateMs.most} ms (most)`,
    ),
    ...struckRows(struck).map((text, i) => row(i === 0 ? 'faults' : '', text)),
    row(
      'longest call',
      `${part.longestCallMs} ms of ${part.boundMs} ms allowed; stuck: ${stuck.join(', ') || 'nobody'}`,
    ),
    row('keys left', keysLeft === null ? 'not looked at' : String(keysLeft)),
    row('plan', part.plan),
    row('history', history),
    ...findingLines(part, MOST_SHOWN),
    '',
  ];
}

/** Faults with their counts, a few to a line. */
function struckRows(struck: readonly string[]): string[] {
  const rows: string[] = [];
  for (const one of struck) {
    const last = rows.at(-1);
    if (last !== undefined && last.length + one.length < 70) rows[rows.length - 1] = `${last}, ${one}`;
    else rows.push(one);
  }
  return rows;
}
