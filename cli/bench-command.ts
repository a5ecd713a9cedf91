import type { Command } from 'commander';
import { MOST_NODES } from '../core/nodes.js';
import { HEALTHS, SHAPES } from '../real/bench/types.js';
import { CLIENT_LIBRARIES } from '../real/client-libraries.js';
import { parseDuration } from '../scenarios/duration.js';
import { InputError, show } from '../scenarios/input-error.js';
import type { ExitCode } from './exit-codes.js';
import type { BenchFlags } from './flags.js';
import type { Finish, Io } from './io.js';
import { listOption, option } from './option.js';
import { SIMULATED_EDITIONS, TORTURE_CLIENTS } from './torture-words.js';
import { whole, wordList } from './values.js';

const MOST_ROUNDS = 1_000;

const EXAMPLES = `
Nodes: those that LOCKSTEP_REDIS names (redis://…,redis://…), else own processes of the redis-server
or valkey-server on the PATH. Other libraries take part as far as they are installed.

Examples:
  lockstep bench                          five nodes, about ten minutes
  lockstep bench --nodes 1,3,5 --json
  lockstep bench --shapes serial --healths healthy,one-stopped --rounds 7
  lockstep bench --no-peers --shapes serial --healths healthy --clients node-redis@5,node-redis@6
  lockstep bench --require                exits with 4 if a threshold is missed
  lockstep bench --safety                 exits with 1 if the lock claims what it has not
  lockstep bench --torture 60s            real nodes are killed, stopped, cut off and skewed within the
                                          lock's assumptions, then restarted at once, outside of them;
                                          exits with 1 for a violation within, 2 if none shows outside
  lockstep bench --torture 60s --seed 7   the same faults at the same times, as far as the machine keeps them
  lockstep bench --torture 60s --clients ioredis@6,node-redis@6,iovalkey --simulated redis@8.4.0,valkey@9.0.0
                                          processes with a client each, in turns; servers with IFEQ among the nodes`;

/** Defines `bench`. */
export function defineBench(program: Command, io: Io, finish: Finish): void {
  program
    .command('bench')
    .description('measure the lock on real Redis, beside other libraries and bare commands')
    .addOption(listOption('--nodes <n,…>', 'numbers of nodes (5)', wholes(1, MOST_NODES)))
    .addOption(listOption('--shapes <s,…>', `of ${SHAPES.join(', ')} (all)`, wordList('a shape', SHAPES)))
    .addOption(listOption('--healths <h,…>', `of ${HEALTHS.join(', ')} (all)`, wordList('a health', HEALTHS)))
    .addOption(option('--rounds <n>', 'measured rounds (21)', whole(1, MOST_ROUNDS)))
    .addOption(option('--effort <x>', 'scales what is done in a round (1)', positive))
    .addOption(
      listOption(
        '--clients <c,…>',
        `the lock on these clients too, each beside its own floor: ${CLIENT_LIBRARIES.join(', ')} (none); with --torture what its processes use, in turns, also upstash (ioredis@5)`,
        wordList('a client', TORTURE_CLIENTS),
      ),
    )
    .option('--no-peers', 'measure no other libraries')
    .option('--picture <file.svg>', 'draw the result too')
    .option('--require', 'exit with 4 if a threshold is missed')
    .addOption(
      option(
        '--torture <time>',
        'no benchmark: strike nodes and clients for so long, and check the locks',
        parseDuration,
      ),
    )
    .option('--seed <text>', 'what the faults of --torture come from (drawn)')
    .addOption(
      listOption(
        '--simulated <e,…>',
        `with --torture the last nodes, as simulated servers: ${SIMULATED_EDITIONS.join(', ')} (none)`,
        wordList('an edition', SIMULATED_EDITIONS),
      ),
    )
    .option('--safety', 'no benchmark: act out what has fooled locks, and compare what they claim')
    .option('--json', 'print one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (flags: BenchFlags) => {
      finish(await carryOut(flags, io));
    });
}

async function carryOut(flags: BenchFlags, io: Io): Promise<ExitCode> {
  const { torture: time, safety: isSafety, json, nodes, peers, seed, simulated, ...others } = flags;
  for (const [name, value] of Object.entries({ seed, simulated })) {
    if (value !== undefined && time === undefined) throw new InputError(`--${name} goes with --torture only`);
  }
  const asJson = json === undefined ? {} : { json };
  if (isSafety) {
    if (Object.keys(others).length > 0 || nodes !== undefined || time !== undefined) {
      throw new InputError('--safety measures nothing: it goes with --json and --no-peers only');
    }
    const { safety } = await import('./bench-safety.js');
    return safety({ peers, ...asJson }, io);
  }
  if (time !== undefined) {
    const { clients, ...forBench } = others;
    if (Object.keys(forBench).length > 0 || !peers || (nodes?.length ?? 1) !== 1) {
      throw new InputError(
        '--torture measures nothing: it goes with --seed, --clients, --simulated, --json and one number of --nodes only',
      );
    }
    const [count] = nodes ?? [];
    const { torture } = await import('./bench-torture.js');
    return torture({ torture: time, nodes: count, seed, clients, simulated, ...asJson }, io);
  }
  const { bench } = await import('./bench.js');
  return bench(flags, io);
}

function wholes(low: number, high: number): (text: string) => number[] {
  return (text) => text.split(',').map((part) => whole(low, high)(part.trim()));
}

function positive(text: string): number {
  const number = /^\d+(\.\d+)?$/.test(text) ? Number(text) : 0;
  if (number > 0) return number;
  throw new InputError(`${show(text)} is not a number above 0; write it like 0.5`);
}
