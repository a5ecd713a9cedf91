import type { Command } from 'commander';
import type { SweepFlags } from './flags.js';
import type { Finish, Io } from './io.js';
import { option } from './option.js';
import { word } from './values.js';

const EXAMPLES = `
Each cell of the map is a configuration under its optimal adversary, run in the simulator: a slow holder, fast
voters, steps and crashes at the worst instants, and a rival that acquires as soon as a quorum is free. Bisection finds
where the verdict changes, to one ppm or microsecond. The map shows the limit from theory beside it.

Two parameters have several values: a range (ttl=1s..30s, drift=0..2%/50 for fifty values), a list (ttl=1s,10s) or
their default range (ttl). The others have one value, by default:
  ttl             time to live (10s)
  drift           clock drift: the holder's clock is slow, the voters' are fast (0)
  drift-allowance part of the TTL kept back for clock errors, as a share (1%)
  fixed-allowance further constant part (2ms)
  restart-delay   downtime of voters that crash after their vote and lose it (no crash)
  step            clock step forward of a faulty voter (0)
  latency         least delay of a message, one way (0)
  nodes           number of nodes (5)
  votes           number of nodes with the holder's token (a quorum)
  faulty-voters   voters with the step or crash; without either, they lose the key at once (1)
  nodes-down      other nodes that are down (0)
  write-delay     from the holder's check to the arrival of its write (no write)
  guard           validity that the check requires (0)

With --profile, a known client uses its own drift allowance, unless you give one; its time-outs are ignored. The theory
is that of the sound lock with this allowance. If a client deviates, some cells disagree.

Exits with 0 when the map is complete, whatever its verdicts, and with 130 when interrupted.

Examples:
  lockstep sweep ttl drift                            how much drift does my configuration tolerate?
  lockstep sweep ttl=1s..30s drift=0..2% latency=1ms
  lockstep sweep drift restart-delay ttl=10s          how long must a crashed node stay down?
  lockstep sweep votes faulty-voters nodes=7          how many nodes may lose data?
  lockstep sweep guard write-delay ttl=30s            how long may a process pause?
  lockstep sweep ttl drift --profile redsync-4        for a known client, with its own allowance
  lockstep sweep faulty-voters restart-delay --persistence always
                                                      the effect of a disk on restarts
  lockstep sweep ttl drift --report safety-map.html   a page with a chart
  lockstep sweep ttl drift --report safety-map.html --here ttl=10s,drift=0.2%
                                                      a page that marks your configuration`;

/** Defines `sweep`. */
export function defineSweep(program: Command, io: Io, finish: Finish): void {
  program
    .command('sweep')
    .description('map where the lock is safe over two parameters')
    .argument('<parameter...>', 'two axes, and fixed values: ttl=1s..30s drift=0..2% nodes=5')
    .option('--profile <profile>', 'client profile; see list --profiles (reference)')
    .addOption(
      option(
        '--persistence <none|rdb|everysec|always>',
        'which data survive: with none, a crash; else a power loss (none)',
        word('none', 'rdb', 'everysec', 'always'),
      ),
    )
    .option('--report <file.html>', 'also write the map as a page')
    .option('--here <values>', 'with --report: mark your configuration on it')
    .option('--json', 'print one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (parameters: string[], flags: SweepFlags) => {
      const { sweepMap } = await import('./sweep.js');
      finish(await sweepMap(parameters, flags, io));
    });
}
