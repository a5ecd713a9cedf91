import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { transform } from 'esbuild';

/** What esbuild writes above the statement by which Node finds the exports of a CommonJS module. It would leave that out. */
const NAMES = /(?=^\/\/ Annotate the CommonJS export names)/m;

// node plain.mjs FOLDER...: leaves the modules in each folder without comments, and in as few characters as their names allow,
// and without those of types alone.
for (const folder of process.argv.slice(2)) {
  for (const file of readdirSync(folder, { recursive: true }).filter((name) => /\.c?js$/.test(name))) {
    const path = join(folder, file);
    const [source, names = ''] = readFileSync(path, 'utf8').split(NAMES);
    const { code } = await transform(source, { minifyWhitespace: true, minifySyntax: true, target: 'node20.19' });
    if (code.trim() === 'export{};') rmSync(path);
    else writeFileSync(path, code + names);
  }
}
