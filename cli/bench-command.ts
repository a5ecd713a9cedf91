import { type Command, Option } from 'commander';
import { MOST_NODES } from '../core/nodes.js';
import { parseDuration } from '../scenarios/duration.js';
import { InputError, show } from '../scenarios/input-error.js';
import type { BenchFlags } from './flags.js';
import type { Finish, Io } from './io.js';
import { flag, whole } from './values.js';

const MOST_ROUNDS = 1_000;

const EXAMPLES = `
Nodes: those that LOCKSTEP_REDIS names (redis://…,redis://…), else own processes of the redis-server
or valkey-server on the PATH.

Examples:
  lockstep bench
  lockstep bench --rounds 3 --nodes 3
  lockstep bench --torture 60s        real nodes are killed, stopped, cut off and skewed within the
                                      lock's assumptions, then restarted at once, outside of them;
                                      exits with 1 for a violation within, 2 if none shows outside
  lockstep bench --min-ratio 0.5      exits with 4 if the lock is slower than half the floor`;

/** Defines `bench`. */
export function defineBench(program: Command, io: Io, finish: Finish): void {
  const option = <T>(flags: string, description: string, parse: (text: string) => T): Option => {
    const made = new Option(flags, description);
    return made.argParser(flag(made.long ?? flags, parse));
  };
  program
    .command('bench')
    .description('measure the lock on real Redis, beside bare commands')
    .addOption(option('--nodes <n>', 'number of nodes (5)', whole(1, MOST_NODES)))
    .addOption(option('--rounds <n>', 'measured rounds (7)', whole(1, MOST_ROUNDS)))
    .addOption(option('--min-ratio <x>', 'least share of the floor on healthy nodes, from 0 to 1', ratio))
    .addOption(
      option(
        '--torture <time>',
        'no benchmark: strike nodes and clients for so long, and check the locks',
        parseDuration,
      ),
    )
    .option('--json', 'print one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (flags: BenchFlags) => {
      if (flags.torture !== undefined) {
        if (flags.rounds !== undefined || flags.minRatio !== undefined)
          throw new InputError('--torture measures nothing: leave out --rounds and --min-ratio');
        const { torture } = await import('./torture.js');
        finish(await torture({ ...flags, torture: flags.torture }, io));
        return;
      }
      const { bench } = await import('./bench.js');
      finish(await bench(flags, io));
    });
}

function ratio(text: string): number {
  const number = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
  if (number <= 1) return number;
  throw new InputError(`${show(text)} is not a number from 0 to 1; write it like 0.5`);
}
