import { formatSafety, runSafety } from '../real/bench/index.js';
import { Exit, type ExitCode } from './exit-codes.js';
import { type Io, writeJson } from './io.js';
import { ProgressLine } from './progress.js';

/** Flags of `bench --safety`. */
export interface SafetyFlags {
  readonly peers: boolean;
  readonly json?: boolean;
}

/** Acts out on real nodes what is known to have fooled locks; the lock of this package must withstand it. */
export async function safety({ peers, json }: SafetyFlags, io: Io): Promise<ExitCode> {
  const line = new ProgressLine(io);
  const result = await runSafety({
    peers,
    signal: io.signal,
    onProgress: ({ done, total }) => line.show(`${done} of ${total} situations acted out`),
  });
  line.end();
  if (json) writeJson(io, result.schema, result);
  else io.stdout.write(`${formatSafety(result)}\n`);
  if (io.signal.aborted) return Exit.interrupted;
  const own = result.rows.filter(({ subject }) => subject === 'lockstep');
  return own.every(({ verdict }) => verdict === 'safe') ? Exit.ok : Exit.violated;
}
