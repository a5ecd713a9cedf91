#!/usr/bin/env node
import { Exit } from './exit-codes.js';
import { commandFor } from './io.js';
import { run } from './run.js';
import { reasonNotWritten } from './write-file.js';

/** The shell's convention for a process that a signal ended. */
const SECOND_INTERRUPT = 130;
/** Some send a signal to a process and to its group: one that comes this soon, ms, is not another. */
const SAME_INTERRUPT_MS = 500;

const controller = new AbortController();
let interruptedAt = 0;
process.on('SIGINT', () => {
  // The first one stops with what there is; a second one ends the process.
  if (!controller.signal.aborted) {
    interruptedAt = performance.now();
    controller.abort();
  } else if (performance.now() - interruptedAt > SAME_INTERRUPT_MS) process.exit(SECOND_INTERRUPT);
});
// A reader that went away (`| head`) wants no more; that is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit();
  // What came of it is not known to who asked, so that no exit code of a verdict would be right.
  process.stderr.write(`lockstep: ${reasonNotWritten('standard output', error)}\n`);
  process.exit(Exit.inconclusive);
});
// There is nowhere left to say it.
process.stderr.on('error', () => {});

process.exitCode = await run(process.argv.slice(2), {
  stdout: process.stdout,
  stderr: process.stderr,
  stdin: process.stdin,
  env: process.env,
  cwd: process.cwd(),
  signal: controller.signal,
  command: commandFor(process.argv[1] ?? 'lockstep', process.cwd()),
});
