import { createHash } from 'node:crypto';
import type { Scenario } from '../../scenarios/index.js';
import { escaped } from '../../text/escaped.js';
import { lookCss } from '../../text/look.js';
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
  const css = `${lookCss()}\n${PICTURE_CSS}\n${style}`;
  const policy = [
    "default-src 'none'",
    `script-src ${hashOf(script)}`,
    'worker-src blob:',
    // Single styles that scripts set are left alone by this; texts of styles must be this one.
    `style-src ${hashOf(css)}`,
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${escaped(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Lockstep playground</title>
<style>${css}</style>
</head>
<body>
<div id="app"><main><h1>Lockstep playground</h1><noscript><p>This page needs JavaScript, and nothing else.</p></noscript></main></div>
${dataElement('catalogue', storedCatalogue(content.scenarios))}
${dataElement('tour', tourOf(content.tour))}
<script id="playground">${script}</script>
</body>
</html>
`;
}

function hashOf(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

/** `</script>` and `<!--` in a text would end the element, or begin another. */
function dataElement(id: string, data: unknown): string {
  return `<script type="application/json" id="${id}">${JSON.stringify(data).replaceAll('<', '\\u003c')}</script>`;
}
