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
Nodes: those that LOCKSTEP_REDIS names (redis://…,redis://…), else own processes of the redis-server
or valkey-server on the PATH. Other libraries take part as far as they are installed.

Examples:
  lockstep bench                          five nodes, about ten minutes
  lockstep bench --nodes 1,3,5 --json
  lockstep bench --shapes serial --healths healthy,one-stopped --rounds 7
  lockstep bench --no-peers --shapes serial --healths healthy --clients node-redis@5,node-redis@6
  lockstep bench --require                exits with 4 if a threshold is missed
  lockstep bench --safety                 exits with 1 if the lock claims what it has not`;

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
        `the lock on these clients too, each beside its own floor: ${CLIENT_LIBRARIES.join(', ')} (none)`,
        wordList('a client', CLIENT_LIBRARIES),
      ),
    )
    .option('--no-peers', 'measure no other libraries')
    .option('--picture <file.svg>', 'draw the result too')
    .option('--require', 'exit with 4 if a threshold is missed')
    .option('--safety', 'no benchmark: act out what has fooled locks, and compare what they claim')
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
