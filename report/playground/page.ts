import type { Scenario } from '../../scenarios/index.js';
import { dataElement, htmlPage } from '../page-shell.js';
import { PICTURE_CSS } from '../picture/style.js';
import { storedCatalogue } from './catalogue.js';
import { type PlaygroundFiles, playgroundFiles } from './files.js';
import { tourOf } from './tour.js';

/** What a page is made of besides its script. */
export interface PlaygroundContent {
  readonly scenarios: readonly Scenario[];
  /** The text of docs/tour.md. */
  readonly tour: string;
}

/**
 * The playground as one HTML file. It needs no server and asks the network for nothing; its policy lets nothing run but its
 * own script, here and in its worker.
 *
 * @throws {@link Error} if it has not been built.
 */
export function playgroundPage(content: PlaygroundContent, files: PlaygroundFiles = playgroundFiles()): string {
  const { script, style } = files;
  return htmlPage({
    title: 'Lockstep playground',
    css: `${PICTURE_CSS}\n${style}`,
    scripts: [script],
    hasWorkers: true,
    body: `<div id="app"><main><h1>Lockstep playground</h1><noscript><p>This page needs JavaScript, and nothing else.</p></noscript></main></div>
${dataElement('catalogue', JSON.stringify(storedCatalogue(content.scenarios)))}
${dataElement('tour', JSON.stringify(tourOf(content.tour)))}
<script id="playground">${script}</script>`,
  });
}
