import type { Command } from 'commander';
import { MOST_NODES } from '../core/nodes.js';
import { HEALTHS, SHAPES } from '../real/bench/types.js';
import { CLIENT_LIBRARIES } from '../real/client-libraries.js';
import { InputError, show } from '../scenarios/input-error.js';
import type { ExitCode } from './exit-codes.js';
import type { BenchFlags } from './flags.js';
import type { Finish, Io } from './io.js';
import { listOption, option } from './option.js';
import { whole, wordList } from './values.js';

const MOST_ROUNDS = 1_000;

const EXAMPLES = `
Nodes are those in LOCKSTEP_REDIS (redis://…,redis://…), or else own processes of the redis-server or valkey-server on
the PATH. Other libraries are measured if they are installed.

Examples:
  lockstep bench                          five nodes, about ten minutes
  lockstep bench --nodes 1,3,5 --json
  lockstep bench --shapes serial --healths healthy,one-stopped --rounds 7
  lockstep bench --no-peers --shapes serial --healths healthy --clients node-redis@5,node-redis@6
  lockstep bench --require                exits with 4 if a threshold is missed
  lockstep bench --safety                 exits with 1 if the lock believes in a lost hold`;

/** Defines `bench`. */
export function defineBench(program: Command, io: Io, finish: Finish): void {
  program
    .command('bench')
    .description('benchmark the lock on real Redis, against other libraries and bare commands')
    .addOption(listOption('--nodes <n,…>', 'numbers of nodes (5)', wholes(1, MOST_NODES)))
    .addOption(listOption('--shapes <s,…>', `of ${SHAPES.join(', ')} (all)`, wordList('a shape', SHAPES)))
    .addOption(listOption('--healths <h,…>', `of ${HEALTHS.join(', ')} (all)`, wordList('a health', HEALTHS)))
    .addOption(option('--rounds <n>', 'measured rounds (21)', whole(1, MOST_ROUNDS)))
    .addOption(option('--effort <x>', 'scale the work of a round (1)', positive))
    .addOption(
      listOption(
        '--clients <c,…>',
        `also measure the lock on these clients, each against its own baseline: ${CLIENT_LIBRARIES.join(', ')} (none)`,
        wordList('a client', CLIENT_LIBRARIES),
      ),
    )
    .option('--no-peers', 'do not measure other libraries')
    .option('--picture <file.svg>', 'also draw the result')
    .option('--require', 'exit with 4 if a threshold is missed')
    .option('--safety', 'instead of a benchmark, run known failures of locks, and compare what the locks believe')
    .option('--json', 'print one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (flags: BenchFlags) => {
      finish(await carryOut(flags, io));
    });
}

async function carryOut(flags: BenchFlags, io: Io): Promise<ExitCode> {
  const { safety: isSafety, json, peers, ...others } = flags;
  if (isSafety) {
    if (Object.keys(others).length > 0)
      throw new InputError('--safety measures nothing: it goes with --json and --no-peers only');
    const { safety } = await import('./bench-safety.js');
    return safety({ peers, ...(json === undefined ? {} : { json }) }, io);
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
