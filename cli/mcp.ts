import { createHash } from 'node:crypto';
import { existsSync, realpathSync, statSync } from 'node:fs';
import { relative, resolve, sep } from 'node:path';
import { CLIENT_KINDS, PROMISES } from '../audit/index.js';
import { PROPERTY_OF } from '../libraries/search/kinds.js';
import { PROPERTIES } from '../properties/property-info.js';
import { InputError, show } from '../scenarios/input-error.js';
import * as z from '../scenarios/zod.js';
import { pathFrom } from './audit-files.js';
import { auditAgain, auditOf, type OnNews } from './audit-one.js';
import { auditJson } from './audit-text.js';
import { Exit, type ExitCode } from './exit-codes.js';
import type { McpFlags } from './flags.js';
import type { Io } from './io.js';
import { type Call, serve, type Tool } from './mcp-protocol.js';
import { version } from './version.js';
import { writeWhole } from './write-file.js';

/** Many clients give up on a call after a minute. Then what was found so far is better than nothing, µs. */
const LIMIT_US = 50_000_000;
/** How much of that is for the search: what is found has to be made small as well. */
const SEARCHED = 0.4;
const LONGEST_SOURCE = 200_000;
const LONGEST_NAME = 400;
const MOST_RUNS = 1_000;
const MOST_NODES = 31;
const SOURCES = '.lockstep/mcp';

const INSTRUCTIONS =
  'Audits locks in Redis by running them in a simulator. Call audit on a file after you have written or changed code that takes a lock; mend what fix says, and call it again until its verdict is passed. The file is run, so audit only code that you would run.';

const name = z.string().min(1).max(LONGEST_NAME);
const auditGrammar = z.strictObject({
  file: name.describe('path of the file, from the root').optional(),
  source: z
    .string()
    .min(1)
    .max(LONGEST_SOURCE)
    .describe('instead of file: TypeScript or JavaScript that imports nothing but packages')
    .optional(),
  acquire: name.describe('function or method that acquires, where it is not found').optional(),
  release: name.describe('function or method that releases').optional(),
  client: z.enum(CLIENT_KINDS).describe('client that the lock is handed').optional(),
  nodes: z.int().min(1).max(MOST_NODES).describe('number of nodes').optional(),
  runs: z.int().min(1).max(MOST_RUNS).describe('most schedules; default 120').optional(),
  seed: name.describe('any text; another one draws other schedules').optional(),
});
const replayGrammar = z.strictObject({ schedule: name.describe('schedule of a finding, as audit has named it') });
const rulesGrammar = z.strictObject({});

/** Serves audits over stdio, until its input ends. */
export async function mcp(flags: McpFlags, io: Io, input: NodeJS.ReadableStream = process.stdin): Promise<ExitCode> {
  const root = resolve(io.cwd, flags.root ?? '.');
  if (!statSync(root, { throwIfNoEntry: false })?.isDirectory())
    throw new InputError(`--root: ${show(flags.root ?? root)} is no folder`);
  // Lines of a file are told from the working directory.
  process.chdir(root);
  const limitMs = (flags.limit ?? LIMIT_US) / 1000;
  const server = {
    tools: toolsIn({ root: realpathSync(root), limitMs, io }),
    version: version(),
    instructions: INSTRUCTIONS,
  };
  await serve(server, input, (line) => io.stdout.write(line), io.signal);
  return io.signal.aborted ? Exit.interrupted : Exit.ok;
}

/** Where tools work, and for how long. */
interface Place {
  readonly root: string;
  readonly limitMs: number;
  readonly io: Io;
}

function toolsIn(place: Place): Tool[] {
  const { root, limitMs } = place;
  return [
    {
      name: 'audit',
      description:
        'Is the lock in this file safe? Loads it in simulated processes beside simulated Redis nodes, and searches for the schedule that breaks it. Answers with verdict, findings (sentence, fix, line) and what was understood. Takes up to a minute.',
      inputSchema: z.toJSONSchema(auditGrammar),
      call: async (given, call) => {
        const { file, source, ...choice } = read(auditGrammar, given);
        if ((file === undefined) === (source === undefined)) throw new InputError('audit: give either file or source');
        const path = file ?? writeSource(root, source ?? '');
        return within(call, place, async (bounded, onNews) => {
          const audited = await auditOf(
            inside(root, path),
            { ...choice, budgetMs: limitMs * SEARCHED },
            bounded,
            onNews,
          );
          return { schema: 'lockstep.audit/1', ...auditJson(audited) };
        });
      },
    },
    {
      name: 'replay',
      description: 'Plays the schedule of one finding again: reproduced says whether the lock still fails on it.',
      inputSchema: z.toJSONSchema(replayGrammar),
      call: async (given, call) => {
        const path = inside(root, read(replayGrammar, given).schedule);
        return within(call, place, async (bounded) => {
          const audited = await auditAgain(path, bounded, (file) => inside(root, file));
          return { reproduced: audited.findings.length > 0, ...auditJson(audited) };
        });
      },
    },
    {
      name: 'rules',
      description: 'What a lock is judged by: the promises, and the properties that findings name.',
      inputSchema: z.toJSONSchema(rulesGrammar),
      call: async (given) => {
        read(rulesGrammar, given);
        const ids = [...new Set(Object.values(PROPERTY_OF))];
        return { promises: PROMISES, properties: Object.fromEntries(ids.map((id) => [id, PROPERTIES[id].definition])) };
      },
    },
  ];
}

/** @throws InputError in a sentence for other arguments. */
function read<T>(grammar: z.ZodType<T>, given: unknown): T {
  const { success, data, error } = grammar.safeParse(given);
  if (success) return data;
  const [issue] = error.issues;
  throw new InputError(`${issue?.path.join('.') || 'arguments'}: ${issue?.message ?? 'not readable'}`);
}

/** A path from the root. @throws InputError for one that leads out of it, by links too. */
function inside(root: string, path: string): string {
  const whole = resolve(root, path);
  if (!existsSync(whole)) throw new InputError(`there is no such file: ${show(path)}`);
  const from = relative(root, realpathSync(whole));
  if (from === '..' || from.startsWith(`..${sep}`) || resolve(from) === from)
    throw new InputError(`${show(path)} is not below the root`);
  return pathFrom(root, whole);
}

/** Where the text of a lock is kept, so that its findings can be played again. */
function writeSource(root: string, source: string): string {
  const hash = createHash('sha256').update(source).digest('hex').slice(0, 12);
  if (existsSync(resolve(root, '.lockstep'))) inside(root, '.lockstep');
  return writeWhole(`${SOURCES}/${hash}/lock.ts`, source, root);
}

/** Audits below the root, for as long as a client waits; what it has to say beside the result goes to stderr. */
async function within(
  { signal, progress }: Call,
  { root, limitMs, io }: Place,
  audit: (bounded: Io, onNews: OnNews) => Promise<object>,
): Promise<object> {
  const bounded = { ...io, cwd: root, signal: AbortSignal.any([io.signal, signal, AbortSignal.timeout(limitMs)]) };
  return audit(bounded, ({ doing, done, of }) => progress(done, of, doing));
}
