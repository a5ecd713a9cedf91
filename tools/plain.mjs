import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { transform } from 'esbuild';

// node plain.mjs FOLDER: leaves the modules in FOLDER without comments and needless white space, and without those of types alone.
const [folder = ''] = process.argv.slice(2);

for (const file of readdirSync(folder, { recursive: true }).filter((name) => name.endsWith('.js'))) {
  const path = join(folder, file);
  const { code } = await transform(readFileSync(path, 'utf8'), { minifyWhitespace: true, target: 'node20.19' });
  if (code.trim() === 'export{};') rmSync(path);
  else writeFileSync(path, code);
}
