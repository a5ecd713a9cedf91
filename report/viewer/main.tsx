import { render } from 'preact';
import type { Payload } from '../payload.js';
import { App } from './app.js';
import './viewer.css';

/** Data may be packed, so that long schedules stay small on disk. */
async function payload(): Promise<Payload> {
  const element = document.getElementById('run');
  const text = element?.textContent ?? '';
  if (element?.getAttribute('data-packed') !== 'gzip') return JSON.parse(text);
  const bytes = Uint8Array.from(atob(text), (it) => it.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).json();
}

async function start(root: HTMLElement): Promise<void> {
  const data = await payload();
  root.replaceChildren();
  render(<App payload={data} />, root);
}

const root = document.getElementById('app');
if (root !== null) void start(root);
