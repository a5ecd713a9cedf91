/*
 * Builds what runs in pages: the viewer of reports, its engine, and the playground. All of it goes into one file, packed
 * together: the playground has the other two in it, and costs the package little beside them.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants } from 'node:zlib';
import { build } from 'esbuild';
import { minifySync } from 'vite';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const OUT = `${ROOT}dist/report`;

/** In a page one generator of seedrandom does. */
const ALIASES = { seedrandom: `${ROOT}node_modules/seedrandom/seedrandom.js` };

/** And as much of zod as the grammar of a schedule speaks. */
const SMALL_ZOD = {
  name: 'small-zod',
  setup({ onResolve }) {
    onResolve({ filter: /\/zod\.js$/ }, () => ({ path: `${ROOT}report/viewer/small-zod.ts` }));
  },
};

const BUNDLES = {
  viewer: { entryPoints: ['report/viewer/main.tsx'] },
  engine: { entryPoints: ['report/viewer/engine.ts'], globalName: 'lockstepEngine' },
  playground: { entryPoints: ['report/playground/app/main.tsx'] },
};

const files = {};
for (const [name, options] of Object.entries(BUNDLES)) {
  const { outputFiles } = await build({
    ...options,
    absWorkingDir: ROOT,
    bundle: true,
    minify: true,
    write: false,
    format: 'iife',
    target: 'es2022',
    charset: 'utf8',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    logLevel: 'warning',
    outdir: OUT,
    entryNames: name,
    alias: ALIASES,
    plugins: [SMALL_ZOD],
    // Fields without a value are not written out.
    tsconfigRaw: { compilerOptions: { useDefineForClassFields: false } },
  });
  for (const { path, text } of outputFiles) {
    const ending = path.slice(path.lastIndexOf('.'));
    files[name + ending] = (ending === '.js' ? smaller(`${name}.js`, text) : text).trimEnd();
  }
}

/** Another minifier finds some more. */
function smaller(name, text) {
  const { code, errors } = minifySync(name, text, { compress: true, mangle: true, codegen: true });
  if (errors.length > 0) throw new Error(`${name}: ${errors[0].message}`);
  return code;
}

const text = Buffer.from(JSON.stringify(files));
const params = {
  [constants.BROTLI_PARAM_QUALITY]: 11,
  // All of it in one window, so that what is in two bundles is found again.
  [constants.BROTLI_PARAM_LGWIN]: 24,
  [constants.BROTLI_PARAM_SIZE_HINT]: text.length,
};
mkdirSync(OUT, { recursive: true });
writeFileSync(`${OUT}/pages.br`, brotliCompressSync(text, { params }));
