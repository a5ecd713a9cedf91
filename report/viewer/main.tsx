import { render } from 'preact';
import type { Payload } from '../payload.js';
import { App } from './app.js';
import { opened, rerun } from './model.js';
import { startEngine } from './start-engine.js';
import { unpacked } from './unpacked.js';
import './run.css';
import './viewer.css';

/** Data may be packed, so that long schedules stay small on disk. */
async function payload(): Promise<Payload> {
  const element = document.getElementById('run');
  const text = element?.textContent ?? '';
  return element?.getAttribute('data-packed') === 'gzip' ? unpacked(text).json() : JSON.parse(text);
}

async function start(root: HTMLElement): Promise<void> {
  const data = await payload();
  const { taken } = data;
  // What is too long to be carried is made here first.
  const written = taken === null ? rerun(await startEngine(), data, []) : opened(data, taken);
  root.replaceChildren();
  render(<App payload={data} first={written} />, root);
}

const root = document.getElementById('app');
if (root !== null) void start(root);
