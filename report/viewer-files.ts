import { pageFile } from './page-files.js';

/** The built viewer: what runs in the page of a report, its looks, and what runs a schedule there. */
export interface ViewerFiles {
  readonly script: string;
  readonly style: string;
  /** The simulator with the monitors, which a page starts once it has something to run. */
  readonly engine: string;
}

/**
 * Reads the viewer.
 *
 * @throws {@link Error} if it has not been built.
 */
export function viewerFiles(): ViewerFiles {
  return { script: pageFile('viewer.js'), style: pageFile('viewer.css'), engine: pageFile('engine.js') };
}
