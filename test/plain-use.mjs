// Audits the files of a folder in plain use, without a search, and prints what each shows: the names of its findings, or why it was
// not audited. In a process of its own: what hundreds of files do to one would reach the later ones.
import { resolve } from 'node:path';
import { auditFile } from '../dist/audit/audit.js';

const [folder = '', ...files] = process.argv.slice(2);
const found = {};
for (const file of files)
  try {
    const { findings } = await auditFile(
      { path: resolve(folder, file), runs: 0, seed: '', budgetMs: 20_000 },
      () => {},
    );
    found[file] = findings.map(({ id }) => id);
  } catch (error) {
    found[file] = `not audited: ${String(error.message).split('\n')[0]}`;
  }
process.stdout.write(JSON.stringify(found));
// Clients of a file may keep it alive.
process.exit(0);
