import { ORIGINS, PROFILES } from '../deviations/index.js';
import { loadCatalogue } from '../scenarios/catalogue.js';
import { Exit, type ExitCode } from './exit-codes.js';
import type { ListFlags } from './flags.js';
import { type Io, widthOf, writeJson } from './io.js';
import { textTable } from './text-table.js';

/** Columns from which on slugs are shown. */
const WIDE = 72;

/** Shows the catalogue, or the policies that clients can follow. */
export function list(flags: ListFlags, io: Io): ExitCode {
  if (flags.profiles) return listPolicies(flags, io);
  const scenarios = loadCatalogue().map(({ id, slug = id, title, expect, source }) => ({
    id,
    slug,
    title,
    expect: expect.verdict,
    source,
  }));
  if (flags.json) writeJson(io, 'lockstep.list/1', { scenarios });
  else {
    const width = widthOf(io);
    // Beside a slug, a narrow terminal has no room for a title.
    const head = ['id', ...(width < WIDE ? [] : (['slug'] as const)), 'expect', 'title'] as const;
    const rows = scenarios.map((it) => head.map((field) => it[field]));
    const table = textTable(
      head.map((field) => (field === 'expect' ? 'verdict' : field)),
      rows,
      head.length,
      width,
    );
    io.stdout.write(`${table}\n\n"${io.command} replay <id>" shows one.\n`);
  }
  return Exit.ok;
}

const COMMIT = 10;

function listPolicies(flags: ListFlags, io: Io): ExitCode {
  const policies = Object.keys(PROFILES).map((id) => ({ id, origin: ORIGINS[id] ?? null, policy: PROFILES[id] }));
  if (flags.json) {
    writeJson(io, 'lockstep.policies/2', { policies });
    return Exit.ok;
  }
  const rows = policies.map(({ id, origin }) => {
    if (origin === null) return [id, '', '', 'this project', 'the sound one, with the defaults of its lock'];
    const [source] = origin.sources;
    const read = source === undefined ? '' : `${source.repository}@${source.commit.slice(0, COMMIT)}`;
    return [
      id,
      origin.language,
      origin.version ?? '',
      origin.title,
      source?.repository === 'npm' ? source.commit : read,
    ];
  });
  io.stdout.write(
    `${textTable(['policy', 'language', 'version', 'client', 'read in'], rows)}\n\n` +
      `"${io.command} check --profile <profile>" searches with one, "replay <scenario> --with policy=<policy>" replays with it.\n` +
      `"--json" adds what each chooses, all sources, what they do not say, and where a profile is simpler than the client.\n`,
  );
  return Exit.ok;
}
