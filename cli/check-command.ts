import type { Command } from 'commander';
import { MOST_NODES } from '../core/nodes.js';
import { SEARCHED } from '../properties/property-lists.js';
import { parseDuration } from '../scenarios/duration.js';
import { percent } from '../scenarios/mitigation-values.js';
import type { PropertyId } from '../scenarios/scenario.js';
import { faultChoice } from '../search/fault-choice.js';
import { BOUND_IDS } from '../search/fault-model.js';
import { STRATEGY_INFO, STRATEGY_NAMES } from '../search/strategy-info.js';
import type { CheckFlags } from './flags.js';
import type { Finish, Io } from './io.js';
import { listOption, option } from './option.js';
import { reporterOption } from './reporters/option.js';
import { delayOrTtl, ttls, votes, whole, word, wordList } from './values.js';
import { workersOption } from './workers.js';

const WORDS_A_LINE = 5;
const MOST_CLIENTS = 16;
const MOST_RUNS = 1_000_000_000_000;

const EXAMPLES = `
Without --faults: every fault that the lock tolerates, up to the bounds of its assumptions.
With --faults crash=1,clock-step=50ms: only these faults, in these amounts, even beyond the assumptions.
With --faults none: no fault.
With --faults +crash=1,-suspend: the default, with more of one fault and without another.
  crash=N, power-loss=N                  nodes whose process dies, or that lose power
  pause=N, suspend=N, client-crash=N, partition=N
                                         maximum number per run
  failover=N, data-loss=N, error-replies=N
                                         nodes that fail over, lose keys, return errors
  wall-step=N                            clients whose wall clock is set, by any amount
  replica-lag=100ms                      how far replicas are behind
  clock-step=50ms, clock-drift=1%        sum of clock steps, rate error of clocks
  late=100%                              delay of writes, as a share of what their check allows
  loss=2%, duplicate=2%, delay=2%        shares of messages
--persistence decides which data survive a crash or a power loss.

Properties, separated by commas:
${wrapped(SEARCHED)}
With fencing among them, locks have fencing tokens, and the resource checks them.
Without --properties: mutual-exclusion, quorum-backed and no-stale-write. If the faults exceed the lock's
assumptions, the last two count only in schedules that keep the assumptions.

Strategies:
${STRATEGY_NAMES.map((name) => `  ${name.padEnd(13)}${STRATEGY_INFO[name].story}`).join('\n')}

check first replays known schedules: found failures in .lockstep/failures, and committed ones in
lockstep/regressions. If one does not reproduce its recorded verdict, check exits with 3. If you give
--profile, --nodes, --ttl, --drift-allowance, --target-votes, --persistence or --restart-delay, each failure
is also replayed with these values: it still fails, or passes. If a committed one still fails, check exits
with 1.

Examples:
  lockstep check                                      search within the assumptions
  lockstep check --demo                               show an example of a violation
  lockstep check --faults crash=1 --restart-delay 0   crashed nodes restart at once, without their data
  lockstep check --faults crash=1 --restart-delay 0 --persistence everysec
                                                      a process dies while its fsync runs
  lockstep check --exceed restart-delay               exceed one bound by 2 %: the search should now fail
  lockstep check --nodes 3 --ttl 10s --budget 30s
  lockstep check --reporter junit                     for CI; or github, minimal, json
  lockstep check S13                                  search around the cluster and faults of a scenario`;

/** The flags that say what is searched, and how much of it. */
export function searchOptions(command: Command): Command {
  return command
    .addOption(option('--nodes <n>', 'number of nodes (5)', whole(1, MOST_NODES)))
    .addOption(option('--clients <n>', 'number of clients (3)', whole(1, MOST_CLIENTS)))
    .addOption(listOption('--ttl <duration,…>', 'time to live of keys, one of these per run (1s,10s,30s)', ttls))
    .addOption(option('--drift-allowance <percent>', 'share of the TTL kept back for clock errors (1%)', percent))
    .addOption(
      listOption('--faults <list>', 'only these faults, none, or changes to the default; see below', faultChoice),
    )
    .addOption(option('--restart-delay <duration|ttl>', 'downtime of a node after a crash', delayOrTtl))
    .addOption(
      option(
        '--persistence <none|rdb|everysec|always>',
        'which data survive a crash or a power loss (none)',
        word('none', 'rdb', 'everysec', 'always'),
      ),
    )
    .addOption(option('--target-votes <n|all|quorum>', 'votes that clients wait for', votes(MOST_NODES)))
    .addOption(option('--exceed <bound>', `exceed one bound: ${BOUND_IDS.join(', ')}`, word(...BOUND_IDS)))
    .addOption(option('--exceed-by <percent>', 'by how much, as a share of the bound (2%)', percent))
    .addOption(
      option('--strategy <name>', 'how to generate schedules (combination); see below', word(...STRATEGY_NAMES)),
    )
    .option('--profile <profile>', 'client profile of all clients (reference)')
    .addOption(
      option('--runs <n>', 'number of schedules to generate (10000; with --budget, no limit)', whole(1, MOST_RUNS)),
    )
    .addOption(option('--budget <duration>', 'stop after this long', parseDuration))
    .addOption(workersOption())
    .option('--seed <text>', 'random seed (1)')
    .addOption(listOption('--properties <list>', 'properties to check; see below', searched));
}

/** Defines `check`. */
export function defineCheck(program: Command, io: Io, finish: Finish): void {
  const command = program
    .command('check')
    .description('search for a schedule that breaks the lock (the default verb)')
    .argument('[scenario]', 'search around this scenario (an id of the catalogue, or a file)');
  searchOptions(command)
    .option('--no-shrink', 'do not shrink a failing schedule')
    .option('--regressions <folder>', 'folder of schedules to replay first (lockstep/regressions, if any)')
    .option('--no-regressions', 'do not replay known schedules first')
    .option('--report <path>', 'write the HTML report here (a failure: beside its schedule)')
    .option('--demo', 'search for a known violation; exit with 0 if found, else with 3')
    .addOption(reporterOption())
    .option('--json', 'print one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (scenario: string | undefined, flags: CheckFlags) => {
      const { check } = await import('./check.js');
      finish(await check(scenario, flags, io));
    });
}

/** A list over lines. */
function wrapped(words: readonly string[]): string {
  const lines: string[] = [];
  for (let i = 0; i < words.length; i += WORDS_A_LINE) lines.push(`  ${words.slice(i, i + WORDS_A_LINE).join(', ')}`);
  return lines.join('\n');
}

function searched(text: string): PropertyId[] {
  return wordList('a property that the search looks for', SEARCHED)(text);
}
