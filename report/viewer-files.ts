import { existsSync, readFileSync } from 'node:fs';

/** The built viewer: what runs in the page of a report, its looks, and what runs a schedule there. */
export interface ViewerFiles {
  readonly script: string;
  readonly style: string;
  /** The simulator with the monitors, which a page starts once it has something to run. */
  readonly engine: string;
}

/**
 * Reads the viewer, seen from the source or from the build in `dist/report`.
 *
 * @throws {@link Error} if it has not been built.
 */
export function viewerFiles(): ViewerFiles {
  const places = ['./', '../dist/report/'].map((place) => new URL(place, import.meta.url));
  const found = places.find((place) => existsSync(new URL('viewer.js', place)));
  if (found === undefined) throw new Error('the viewer of reports has not been built; run: npm run build');
  const read = (name: string): string => readFileSync(new URL(name, found), 'utf8').trimEnd();
  return { script: read('viewer.js'), style: read('viewer.css'), engine: read('engine.js') };
}
