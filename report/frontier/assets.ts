import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

/** What the page is made with besides the map itself. */
export interface PageAssets {
  /** uPlot and its style sheet. */
  readonly library: string;
  readonly libraryStyle: string;
  /** The page's own script. */
  readonly script: string;
}

/** Reads them from the packages, and from the source or the package that this is built into. */
export function pageAssets(): PageAssets {
  const packages = createRequire(import.meta.url);
  const read = (name: string): string => readFileSync(packages.resolve(name), 'utf8');
  const places = ['./chart.js', '../../../report/frontier/chart.js'].map((it) => new URL(it, import.meta.url));
  const script = places.find((it) => existsSync(it));
  if (script === undefined) throw new Error('report/frontier/chart.js of the package is missing');
  return {
    library: read('uplot/dist/uPlot.iife.min.js'),
    libraryStyle: read('uplot/dist/uPlot.min.css'),
    script: readFileSync(script, 'utf8'),
  };
}
