import { loadCatalogue } from '../scenarios/catalogue.js';
import { Exit, type ExitCode } from './exit-codes.js';
import type { ListFlags } from './flags.js';
import { type Io, writeJson } from './io.js';
import { textTable } from './text-table.js';

/** Shows the catalogue. */
export function list(flags: ListFlags, io: Io): ExitCode {
  const scenarios = loadCatalogue().map(({ id, title, expect, source }) => ({
    id,
    title,
    expect: expect.verdict,
    source,
  }));
  if (flags.json) writeJson(io, 'lockstep.list/1', { scenarios });
  else {
    const rows = scenarios.map(({ id, title, expect }) => [id, expect, title]);
    io.stdout.write(`${textTable(['id', 'verdict', 'title'], rows)}\n\n"${io.command} replay <id>" shows one.\n`);
  }
  return Exit.ok;
}
