import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { build } from 'esbuild';

// Makes dist/ of the package from the lock and `core`; the declarations in dist/types are made by tsc.
const dist = new URL('dist/', import.meta.url);
rmSync(dist, { recursive: true, force: true });
mkdirSync(new URL('types/', dist), { recursive: true });

await build({
  absWorkingDir: new URL('.', import.meta.url).pathname,
  entryPoints: ['index.ts', 'compat.ts'],
  outdir: 'dist',
  outExtension: { '.js': '.cjs' },
  bundle: true,
  format: 'cjs',
  platform: 'node',
  target: 'node20.19',
  logLevel: 'warning',
  plugins: [
    {
      // The two share what is in the one, so that `instanceof LockError` holds across them.
      name: 'one-lock',
      setup: ({ onResolve }) => {
        onResolve({ filter: /^\.\/index\.js$/ }, ({ importer }) =>
          importer.endsWith('compat.ts') ? { path: './index.cjs', external: true } : undefined,
        );
      },
    },
  ],
});

// `import` and `require` load the same code, for the same reason.
for (const entry of ['index', 'compat']) {
  const exported = createRequire(import.meta.url)(`./dist/${entry}.cjs`);
  // What `import` takes for the default of such a module is all of it.
  const names = Object.keys(exported)
    .filter((name) => name !== 'default')
    .sort();
  if ('default' in exported) names.push('Redlock as default');
  writeFileSync(new URL(`${entry}.js`, dist), `export { ${names.join(', ')} } from './${entry}.cjs';\n`);
}
writeFileSync(new URL('index.d.ts', dist), "export * from './types/real/lock/index.js';\n");
writeFileSync(
  new URL('compat.d.ts', dist),
  "export * from './types/real/lock/compat.js';\nexport { Redlock as default } from './types/real/lock/compat.js';\n",
);
writeFileSync(new URL('types/package.json', dist), '{ "type": "commonjs" }\n');
