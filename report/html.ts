import { gzipSync } from 'node:zlib';
import { escaped } from '../text/escaped.js';
import { dataElement, htmlPage } from './page-shell.js';
import type { Payload } from './payload.js';
import { PICTURE_CSS } from './picture/style.js';
import { type ViewerFiles, viewerFiles } from './viewer-files.js';

/** Data longer than this is packed, characters. */
const MOST_PLAIN = 12_000;

/**
 * A report as one HTML file: it opens from a file, asks the network for nothing, and runs its schedule again by itself.
 *
 * @throws {@link Error} if the viewer has not been built.
 */
export function htmlReport(payload: Payload, files: ViewerFiles = viewerFiles()): string {
  const { script, style } = files;
  const engine = payload.source.kind === 'schedule' ? files.engine : null;
  return htmlPage({
    title: `${payload.id}: ${payload.title}`,
    css: `${PICTURE_CSS}\n${style}`,
    scripts: [LOADER, script, ...(engine === null ? [] : [engine])],
    body: `<div id="app"><main><h1>${escaped(payload.title)}</h1><p>${escaped(payload.story)}</p><noscript><p>This page needs JavaScript, and nothing else. Without it: <code>${escaped(payload.replay)}</code></p></noscript></main></div>
${runElement(payload)}
<script type="text/plain" id="viewer">${packed(script)}</script>
${engine === null ? '' : `<script type="text/plain" id="engine">${packed(engine)}</script>\n`}<script>${LOADER}</script>`,
  });
}

/** Unpacks the viewer and starts it. What it may start is fixed by the policy of the page. */
const LOADER =
  "(async()=>{const t=document.getElementById('viewer').textContent,b=Uint8Array.from(atob(t),c=>c.charCodeAt(0));" +
  "const s=document.createElement('script');s.textContent=await new Response(new Blob([b]).stream()" +
  ".pipeThrough(new DecompressionStream('gzip'))).text();document.body.append(s)})()";

function packed(text: string): string {
  return gzipSync(text, { level: 9 }).toString('base64');
}

function runElement(payload: Payload): string {
  const text = JSON.stringify(payload);
  if (text.length > MOST_PLAIN) {
    return `<script type="text/plain" id="run" data-packed="gzip">${packed(text)}</script>`;
  }
  return dataElement('run', text);
}
