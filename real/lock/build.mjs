import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { buildSync } from 'esbuild';

// Makes dist/ of the package from the lock and `core`; the declarations in dist/types are made by tsc.
const dist = new URL('dist/', import.meta.url);
rmSync(dist, { recursive: true, force: true });
mkdirSync(new URL('types/', dist), { recursive: true });

buildSync({
  absWorkingDir: new URL('.', import.meta.url).pathname,
  entryPoints: ['index.ts'],
  outfile: 'dist/index.cjs',
  bundle: true,
  format: 'cjs',
  platform: 'node',
  target: 'node20.19',
  logLevel: 'warning',
});

// `import` and `require` load the same code, so that `instanceof LockError` holds across them.
const names = Object.keys(createRequire(import.meta.url)('./dist/index.cjs')).sort();
writeFileSync(new URL('index.js', dist), `export { ${names.join(', ')} } from './index.cjs';\n`);
writeFileSync(new URL('index.d.ts', dist), "export * from './types/real/lock/index.js';\n");
writeFileSync(new URL('types/package.json', dist), '{ "type": "commonjs" }\n');
