import type { Command } from 'commander';
import { MOST_NODES } from '../core/nodes.js';
import { parseDuration } from '../scenarios/duration.js';
import type { ChaosFlags } from './chaos.js';
import { CHAOS_CLIENTS, SIMULATED_EDITIONS } from './chaos-words.js';
import type { Finish, Io } from './io.js';
import { listOption, option } from './option.js';
import { whole, wordList } from './values.js';

const EXAMPLES = `
Client processes acquire and release locks on real nodes. Meanwhile, nodes and clients are killed, stopped and
partitioned, and clocks of nodes drift and step. The first part keeps the lock's assumptions. The second part exceeds
them: nodes restart at once without their keys. The histories of the clients are checked as by "verify". Exits with 1
for a violation in the first part, and with 2 if the second part has none.

Examples:
  lockstep chaos                        a minute within the assumptions, and a minute beyond them
  lockstep chaos --duration 10m --seed 7
                                        the same faults at the same times, as far as the machine keeps them
  lockstep chaos --clients ioredis@6,node-redis@6,iovalkey --simulated redis@8.4.0,valkey@9.0.0
                                        client libraries in turn; servers with IFEQ among the nodes`;

/** Defines `chaos`. */
export function defineChaos(program: Command, io: Io, finish: Finish): void {
  program
    .command('chaos')
    .description('inject faults into real nodes, and check the histories of clients')
    .addOption(option('--duration <time>', 'duration of the part within the assumptions (60s)', parseDuration))
    .addOption(option('--seed <text>', 'random seed of the faults (random)', (text) => text))
    .addOption(option('--nodes <n>', 'number of nodes (5)', whole(1, MOST_NODES)))
    .addOption(
      listOption(
        '--clients <c,…>',
        `client libraries of the processes, in turn: ${CHAOS_CLIENTS.join(', ')} (ioredis@5)`,
        wordList('a client', CHAOS_CLIENTS),
      ),
    )
    .addOption(
      listOption(
        '--simulated <e,…>',
        `run the last nodes as simulated servers: ${SIMULATED_EDITIONS.join(', ')} (none)`,
        wordList('an edition', SIMULATED_EDITIONS),
      ),
    )
    .option('--json', 'print one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (flags: ChaosFlags) => {
      const { chaos } = await import('./chaos.js');
      finish(await chaos(flags, io));
    });
}
