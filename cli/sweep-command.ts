import type { Command } from 'commander';
import type { SweepFlags } from './flags.js';
import type { Finish, Io } from './io.js';
import { option } from './option.js';
import { word } from './values.js';

const EXAMPLES = `
Each cell of the map is a configuration under its optimal adversary, run in the simulator: a slow holder, fast
voters, the worst instants for steps and crashes, a rival that strikes as soon as a quorum is free. Where the
verdict changes, bisection finds the edge to the last ppm or microsecond, beside the one that the theory computes.

Two parameters have several values, as a range (ttl=1s..30s, drift=0..2%/50 for fifty), a list (ttl=1s,10s) or their
usual range (ttl); the others have one value, or their usual one:
  ttl             time to live (10s)
  drift           how wrong clocks run, the holder's slow and the voters' fast (0)
  drift-allowance what the lock takes off for drift, as a share of the TTL (1%)
  fixed-allowance what it takes off besides (2ms)
  restart-delay   until a voter that crashed after its vote is back, empty (none crashes)
  step            by how much a faulty voter's clock jumps forward (0)
  latency         what a message takes at least, one way (0)
  nodes           (5)     votes    nodes that hold the holder's token (a quorum)
  faulty-voters   voters struck by the step or crash; without either they forget at once (1)
  nodes-down      other nodes that are down (0)
  write-delay     from the holder's check to the arrival of its write (no write)
  guard           validity that the check asks for (0)

With --profile, a known client takes its own drift allowance unless another is given; how long it waits for answers is
left out. The theory is that of the sound lock with this allowance: where a client does otherwise, cells disagree.

Exits with 0 when the map is measured, whatever is on it, and 130 when it was interrupted.

Examples:
  lockstep sweep ttl drift                            how much drift does my configuration tolerate?
  lockstep sweep ttl=1s..30s drift=0..2% latency=1ms
  lockstep sweep drift restart-delay ttl=10s          how long must a crashed node stay away?
  lockstep sweep votes faulty-voters nodes=7          how many nodes may forget?
  lockstep sweep guard write-delay ttl=30s            how long may a process be paused?
  lockstep sweep ttl drift --profile redsync-4        the same of a known client, with its own allowance
  lockstep sweep faulty-voters restart-delay --persistence always
                                                      what a disk changes about restarts
  lockstep sweep ttl drift --report safety-map.html   the same as a page with a chart
  lockstep sweep ttl drift --report safety-map.html --here ttl=10s,drift=0.2%
                                                      the same with "you are here"`;

/** Defines `sweep`. */
export function defineSweep(program: Command, io: Io, finish: Finish): void {
  program
    .command('sweep')
    .description('map where the lock is safe over two parameters')
    .argument('<parameter...>', 'two axes, and fixed values: ttl=1s..30s drift=0..2% nodes=5')
    .option('--profile <profile>', 'the client, as list --profiles names it (reference)')
    .addOption(
      option(
        '--persistence <none|rdb|everysec|always>',
        'what survives a crash, or a loss of power where it is not none (none)',
        word('none', 'rdb', 'everysec', 'always'),
      ),
    )
    .option('--report <file.html>', 'write the map as a page, too')
    .option('--here <values>', 'with --report: mark your own configuration on it')
    .option('--json', 'print one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (parameters: string[], flags: SweepFlags) => {
      const { sweepMap } = await import('./sweep.js');
      finish(await sweepMap(parameters, flags, io));
    });
}
