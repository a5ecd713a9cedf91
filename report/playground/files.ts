import { pageFile } from '../page-files.js';

/** The built playground: what runs in the page and in its worker, and its looks. */
export interface PlaygroundFiles {
  readonly script: string;
  readonly style: string;
}

/**
 * Reads it.
 *
 * @throws {@link Error} if it has not been built.
 */
export function playgroundFiles(): PlaygroundFiles {
  return { script: pageFile('playground.js'), style: pageFile('playground.css') };
}
