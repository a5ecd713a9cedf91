import { createHash } from 'node:crypto';
import { escaped } from '../text/escaped.js';
import { lookCss } from '../text/look.js';

/** What a page is made of besides its frame. */
export interface PageParts {
  readonly title: string;
  /** Its style sheet; the tokens of `text/look.ts` come before it. */
  readonly css: string;
  /** HTML: every text of others in it has to be escaped. */
  readonly body: string;
  /** Scripts that stand in the body, as they are there, and those that these may start. */
  readonly scripts: readonly string[];
  /** Whether its scripts make workers of themselves. Default: no. */
  readonly hasWorkers?: boolean;
}

/**
 * One HTML file that asks the network for nothing. Its policy lets in these scripts and this style sheet by their hashes, and
 * nothing else: whatever a name in it says, nothing of it is run.
 */
export function htmlPage({ title, css, body, scripts, hasWorkers = false }: PageParts): string {
  const style = `${lookCss()}\n${css}`;
  const policy = [
    "default-src 'none'",
    scripts.length === 0 ? "script-src 'none'" : `script-src ${scripts.map(hashOf).join(' ')}`,
    ...(hasWorkers ? ['worker-src blob:'] : []),
    // Preact sets single styles by script, which this leaves alone; texts of styles must be this one.
    `style-src ${hashOf(style)}`,
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
<title>${escaped(title)}</title>
<style>${style}</style>
</head>
<body>
${body}
</body>
</html>
`;
}

/**
 * Data in a page, as an element that its script reads.
 *
 * @param json - `</script>` and `<!--` in a text of it would end the element, or begin another: they are written in another way.
 */
export function dataElement(id: string, json: string): string {
  return `<script type="application/json" id="${id}">${json.replaceAll('<', '\\u003c')}</script>`;
}

function hashOf(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

/** The looks of pages that are read like a document: the safety map, and the page for a pass. */
export const DOCUMENT_CSS: string = `
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:var(--size-3)/1.5 var(--font);font-variant-numeric:tabular-nums}
main{max-width:62rem;margin:0 auto;padding:var(--space-4)}
.id{margin:0;color:var(--soft);font-size:var(--size-2)}
h1{margin:2px 0 var(--space-2);font-size:var(--size-5);line-height:1.2}
h1.good{color:var(--good)}h1.bad{color:var(--bad)}
h2{font-size:var(--size-4);line-height:1.3;margin:var(--space-5) 0 var(--space-2)}
h3{font-size:var(--size-3);margin:var(--space-3) 0 var(--space-1)}
p{margin:0 0 var(--space-2);max-width:46rem}
.sentence{font-size:var(--size-4);line-height:1.4;max-width:50rem}
.dim,figcaption{color:var(--soft);font-size:var(--size-2)}
figure{margin:var(--space-3) 0}
svg{display:block;max-width:100%;height:auto}
ul{margin:0 0 var(--space-2);padding-inline-start:1.2em;max-width:46rem}
li{margin:2px 0}
dl{margin:0}dt{font-weight:600}dd{margin:0 0 var(--space-2);overflow-wrap:anywhere}
code,pre{font-family:var(--mono);font-size:var(--size-2);background:var(--panel);border-radius:var(--radius)}
code{padding:2px 6px;overflow-wrap:anywhere}
pre{padding:var(--space-2) var(--space-3);margin:0 0 var(--space-2);overflow-x:auto}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:var(--size-2)}
th,td{text-align:start;vertical-align:top;padding:var(--space-1) var(--space-4) var(--space-1) 0;border-bottom:1px solid var(--line)}
thead th{color:var(--soft);font-weight:600}
tbody th{font-weight:600}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
@media(max-width:600px){main{padding:var(--space-3)}h1{font-size:22px}}
@media print{main{max-width:none;padding:0}h2,figure,table{break-inside:avoid}pre{white-space:pre-wrap}}
`.trim();
