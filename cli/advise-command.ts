import type { Command } from 'commander';
import { SUPERVISORS } from '../advise/system.js';
import { UNKNOWNS } from '../advise/unknowns.js';
import { MOST_NODES } from '../core/nodes.js';
import { parseDuration } from '../scenarios/duration.js';
import { percent, wholeMs } from '../scenarios/mitigation-values.js';
import type { AdviseFlags } from './flags.js';
import type { Finish, Io } from './io.js';
import { listOption, option } from './option.js';
import { whole, word, wordList } from './values.js';

const MOST_RUNS = 10_000_000;

const EXAMPLES = `
Says whether the lock of a system is safe, and if not the least changes that make it so, as lines for its own files.
A system is described in a file, by flags, by answers (on a terminal, where neither is given), or read from running
nodes; flags change what the others say. What is not said has its default, which is not the worst for pauses and clock
steps: say yours. What is assumed is printed after the lines.

Lines have rounded figures, with the least that is safe beside them. A run at that and one a microsecond below it, where
two clients hold the lock or a write comes too late, are in .lockstep/advise, for "lockstep replay".

A file: { "nodes": { "count": 3, "persistence": "everysec", "restart": "1s", "supervisor": "systemd" },
          "clocks": { "drift": "0.05%", "steps": "100ms" }, "pauses": { "process": "500ms" },
          "client": { "library": "redsync-4", "ttl": "8s" }, "work": { "longest": "3s" } }
"lockstep list --profiles" names the libraries; docs/guide-advise.md has all fields, and twelve systems.

With --check it exits with 1 unless the system is safe as it is, and replays known failures (lockstep/regressions)
with its settings: they still fail, or now pass. --save-advised writes the description for it.

Examples:
  lockstep advise system.json
  lockstep advise --nodes 3 --persistence everysec --restart 1s --supervisor systemd --steps 100ms --library redsync-4
  lockstep advise system.json --no-reordering --save-advised advised.json
  lockstep advise --redis redis://127.0.0.1:7001,redis://127.0.0.1:7002,redis://127.0.0.1:7003 --ttl 10s
  lockstep advise system.json --solve allowance,restart-delay --json
  lockstep advise system.json --check --badge lock.svg --report lock.html`;

/** A value that is checked here and read with all others. */
function text(parse: (given: string) => unknown): (given: string) => string {
  return (given) => {
    parse(given);
    return given;
  };
}

const duration = text(parseDuration);
const share = text(percent);
const durationOr = (...words: readonly string[]): ((given: string) => string) =>
  text((given) => words.includes(given) || parseDuration(given));

/** Defines `advise`. */
export function defineAdvise(program: Command, io: Io, finish: Finish): void {
  program
    .command('advise')
    .description('what makes your system safe, as lines for its own files')
    .argument('[file]', 'a description of the system: JSON, TypeScript or JavaScript')
    .addOption(option('--nodes <n>', 'Redis nodes', whole(1, MOST_NODES)))
    .addOption(
      option('--persistence <kind>', 'none, rdb, everysec or always (none)', word('none', 'rdb', 'everysec', 'always')),
    )
    .addOption(
      option('--restart <time>', 'the soonest that a stopped node serves again, or by-hand (0)', durationOr('by-hand')),
    )
    .addOption(
      option('--supervisor <name>', `what restarts it: ${SUPERVISORS.join(', ')} (other)`, word(...SUPERVISORS)),
    )
    .addOption(option('--unit <name>', 'its unit of systemd, as in redis.service (redis-server)', (it) => it))
    .option('--power-loss', 'the machine of a node may be reset or lose its power (the default)')
    .option('--no-power-loss', 'it never does: only the process of a node dies')
    .addOption(
      option('--failover <time>', 'how far a replica that may take over is behind, or none (none)', durationOr('none')),
    )
    .addOption(option('--at-once <n>', 'nodes that may fail during one lock (all)', whole(0, MOST_NODES)))
    .addOption(option('--drift <percent>', 'error of the rate of clocks (0.05%)', share))
    .addOption(
      option(
        '--steps <time>',
        'by how much people set clocks during a lock; any: a time service steps (0)',
        durationOr('any'),
      ),
    )
    .addOption(option('--pause <time>', 'the longest that a client process is paused (0)', duration))
    .addOption(option('--latency <time>', 'what messages take at most (10ms)', duration))
    .option('--reordering', 'messages of a client to a node may overtake each other (the default for a pool)')
    .option('--no-reordering', 'they keep their order (the default for one connection)')
    .addOption(option('--library <name>', 'the client, as list --profiles names it (reference)', (it) => it))
    .addOption(
      option('--node-timeout <time>', "how long it waits for a node, or none (the client's own)", durationOr('none')),
    )
    .addOption(option('--ttl <time>', 'time to live of locks (10s)', text(wholeMs)))
    .addOption(option('--work <time>', 'the longest work under the lock (half of the TTL)', duration))
    .option('--extends', 'the lock is extended while the work goes on')
    .option('--checks-token', 'the protected resource can compare fencing tokens')
    .addOption(
      listOption('--redis <url,…>', 'read persistence, eviction and replicas from these nodes; writes nothing', urls),
    )
    .addOption(
      listOption('--solve <list>', `only some of ${UNKNOWNS.join(', ')} (all)`, wordList('a setting', UNKNOWNS)),
    )
    .addOption(option('--runs <n>', 'histories of the search inside (2000)', whole(0, MOST_RUNS)))
    .option('--alternatives', 'print the lines of what would do in place of a change, too')
    .option('--check', 'exit with 1 unless the system is safe as it is')
    .option('--save <file.json>', 'write the description to a file')
    .option('--save-advised <file.json>', 'write the description with the changes in place to a file')
    .option('--badge <file.svg>', 'write the verdict as a badge')
    .option('--report <file.html>', 'write the advice as a page')
    .option('--json', 'print one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (file: string | undefined, flags: AdviseFlags) => {
      const { advise } = await import('./advise.js');
      finish(await advise(file, flags, io));
    });
}

function urls(given: string): string[] {
  return given.split(',').map((it) => it.trim());
}
