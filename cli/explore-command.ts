import type { Command } from 'commander';
import { parseDuration } from '../scenarios/duration.js';
import { InputError, show } from '../scenarios/input-error.js';
import { integer } from '../scenarios/mitigation-values.js';
import type { ExploreFlags } from './flags.js';
import type { Finish, Io } from './io.js';
import { listOption, option } from './option.js';
import { whole, word } from './values.js';

const MOST_TICKS = 60;
const MOST_STATES = 200_000_000;

const EXAMPLES = `
Visits every state that a small configuration of the production lock can reach: every order of messages, of crashes
and restarts, and of ticks of each clock. One tick is a millisecond. A message may take any time, which includes its
loss. The verdict is "safe" only if the whole state space was visited.

Examples:
  lockstep explore --crash 1 --restart-delay 0     a node restarts at once, without its data
  lockstep explore --crash 1 --restart-delay ttl   the same with a delayed restart
  lockstep explore --drift 1 --drift-allowance 1   a clock error of one tick, within the allowance
  lockstep explore --sets 012,013 --ttl 2          two clients with different nodes, as in a rolling change
  lockstep explore --property fencing --crash 1 --restart-delay 0 --rollback 1
  lockstep explore --mutant M07 --nodes 4          a mutant ("lockstep mutants" lists them)
  lockstep explore --liveness --retries forever --timeout 1 --clients 1 --crash 1
  lockstep explore --drift 1 --drift-allowance 1 --crash 1 --restart-delay ttl --checkpoint big.space`;

/** Ticks, or one of some words. */
function ticksOr<const T extends string>(least: number, ...words: readonly T[]): (text: string) => number | T {
  return (text) => words.find((candidate) => candidate === text.trim()) ?? integer(text, least, MOST_TICKS, ...words);
}

/** Defines `explore`. */
export function defineExplore(program: Command, io: Io, finish: Finish): void {
  program
    .command('explore')
    .description('model-check a small configuration exhaustively')
    .addOption(option('--nodes <n>', 'number of Redis nodes (3)', whole(1, 7)))
    .addOption(option('--clients <n>', 'number of clients, with one acquisition each (2)', whole(1, 4)))
    .addOption(option('--ttl <ticks>', 'time to live (3)', whole(1, MOST_TICKS)))
    .addOption(option('--crash <n>', 'number of node crashes, with data loss (0)', whole(0, 7)))
    .addOption(
      option('--restart-delay <ticks>', 'downtime after a crash; or ttl, never (never)', ticksOr(0, 'ttl', 'never')),
    )
    .addOption(option('--rollback <n>', 'number of nodes that restart at once with their oldest dump (0)', whole(0, 3)))
    .addOption(option('--drift <n>', 'ticks that all clocks together gain or lose (0)', whole(0, 7)))
    .addOption(
      option('--drift-allowance <ticks>', 'part of the TTL kept back for clock errors (0)', whole(0, MOST_TICKS)),
    )
    .addOption(option('--loss <n>', 'number of lost messages (0)', whole(0, 7)))
    .addOption(option('--pause <n>', 'number of client pauses, of any length (0)', whole(0, 7)))
    .addOption(option('--retries <n>', 'number of attempts after the first, or forever (0)', ticksOr(0, 'forever')))
    .addOption(option('--extensions <n>', 'number of extensions of each client (0)', whole(0, 7)))
    .option('--healing', 'extensions also set missing keys')
    .option('--releases', 'clients may release at any time')
    .addOption(option('--link <kind>', 'message order: fifo or reordering (fifo)', word('fifo', 'reordering')))
    .addOption(
      listOption('--sets <list>', 'nodes that each client knows, as digits: 012,013 (all)', (it) =>
        it.split(',').map((set) => set.trim()),
      ),
    )
    .addOption(
      option(
        '--wait <ticks>',
        'delay until clients with a set other than the first acquire; or ttl (0)',
        ticksOr(0, 'ttl'),
      ),
    )
    .option('--off <nodes>', 'nodes that stop for good when that delay begins, as digits')
    .option('--drain', 'clients with the first set stop acquiring and extending when that delay begins')
    .addOption(option('--timeout <ticks>', 'time-out of a client per node, or never (never)', ticksOr(1, 'never')))
    .addOption(option('--mutant <id>', 'id of a mutant to plant in the policy', (id) => id))
    .addOption(
      option(
        '--property <id>',
        'mutual-exclusion, quorum-backed, acquisition or fencing (mutual-exclusion)',
        word('mutual-exclusion', 'quorum-backed', 'acquisition', 'fencing'),
      ),
    )
    .option('--liveness', 'check instead whether the lock can always be acquired')
    .addOption(
      option('--order <order>', 'breadth (shortest counterexample) or depth (breadth)', word('breadth', 'depth')),
    )
    .option('--no-symmetry', 'switch off symmetry reduction')
    .option('--no-reduction', 'switch off the other reductions')
    .addOption(option('--max-states <n>', 'visit at most this many states (50000000)', whole(1, MOST_STATES)))
    .addOption(option('--budget <time>', 'stop after this time, such as 60s', parseDuration))
    .option('--checkpoint <file>', 'continue from this file if it exists, and write it when stopped')
    .option('--report <path>', 'write a report page here if nothing is violated (none)')
    .option('--json', 'print one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (flags: ExploreFlags) => {
      if (flags.liveness && (flags.property ?? flags.order) !== undefined) {
        throw new InputError(`--liveness: leave out ${show(flags.property === undefined ? '--order' : '--property')}`);
      }
      const { exploreSpace } = await import('./explore.js');
      finish(await exploreSpace(flags, io));
    });
}
