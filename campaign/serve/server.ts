import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { formatSchedule } from '../../scenarios/index.js';
import type { CampaignState, QueuedCampaign } from '../queue/index.js';
import type { CampaignSpec } from '../spec.js';
import type { Failure } from '../unit.js';
import { pageHtml, progressHtml, SCRIPT_HASH } from './page.js';

/** Where the state comes from. */
export interface Watched {
  state(): Promise<CampaignState>;
}

/** How a page is served. */
export interface PageOptions {
  /** What the campaign is called there. */
  readonly name: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** A failure as text: who, when, why, and what prevents it. */
  readonly textOf: (failure: Failure, spec: CampaignSpec) => string;
  /** How old a state may be that is shown, ms. Default: 1000. */
  readonly freshMs?: number;
}

/** A page that is being served. */
export interface ServedPage extends AsyncDisposable {
  readonly url: string;
}

const HOST = '127.0.0.1';
/** No page asks more often than this of the server that has the queue, ms. */
const FRESH_MS = 1_000;

const POLICY =
  `default-src 'none'; style-src 'unsafe-inline'; script-src '${SCRIPT_HASH}'; connect-src 'self'; ` +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** Serves the page of a campaign to this machine alone. */
export async function servePage(campaign: Watched | QueuedCampaign, options: PageOptions): Promise<ServedPage> {
  const latest = cached(() => campaign.state(), options.freshMs ?? FRESH_MS);
  const server = createServer((request, response) => {
    answer(request, response, options, latest).catch((error: unknown) => {
      // The server of the queue may be away for a while.
      send(response, 503, 'text/plain', error instanceof Error ? error.message : String(error));
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port, HOST, resolve);
  });
  const { port: bound } = server.address() as AddressInfo;
  return { url: `http://${HOST}:${bound}/`, [Symbol.asyncDispose]: () => closed(server) };
}

async function answer(
  { method, url = '/', headers }: IncomingMessage,
  response: ServerResponse,
  { name, textOf }: PageOptions,
  latest: () => Promise<CampaignState>,
): Promise<void> {
  // A page of another site may have a name that leads here.
  if (!/^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/.test(headers.host ?? '')) {
    send(response, 403, 'text/plain', 'this page is for this machine alone');
    return;
  }
  if (method !== 'GET') {
    send(response, 405, 'text/plain', 'only GET');
    return;
  }
  const state = await latest();
  const failure = /^\/failures\/(\d+)\.(json|txt)$/.exec(url);
  const found = state.part.failures[Number(failure?.[1])];
  if (url === '/') send(response, 200, 'text/html', pageHtml(name, state));
  else if (url === '/progress') send(response, 200, 'text/html', progressHtml(state));
  else if (url === '/state.json') send(response, 200, 'application/json', JSON.stringify(state));
  else if (failure !== null && found !== undefined) {
    const isSchedule = failure[2] === 'json';
    if (isSchedule) response.setHeader('Content-Disposition', `attachment; filename="${name}-${found.run + 1}.json"`);
    const type = isSchedule ? 'application/json' : 'text/plain';
    send(response, 200, type, isSchedule ? formatSchedule(found.schedule) : textOf(found, state.part.spec));
  } else send(response, 404, 'text/plain', 'there is no such page');
}

function send(response: ServerResponse, status: number, type: string, text: string): void {
  response.writeHead(status, {
    'Content-Type': `${type}; charset=utf-8`,
    'Content-Security-Policy': POLICY,
    'X-Content-Type-Options': 'nosniff',
    'Cache-Control': 'no-store',
  });
  response.end(text);
}

/** Asks again only where what it has is old. */
function cached<T>(ask: () => Promise<T>, freshMs: number): () => Promise<T> {
  let known: { readonly at: number; readonly value: Promise<T> } | null = null;
  return () => {
    if (known === null || performance.now() - known.at >= freshMs) known = { at: performance.now(), value: ask() };
    return known.value;
  };
}

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
