import { render } from 'preact';
import { scenariosOf } from '../catalogue.js';
import { App } from './app.js';
import '../../viewer/run.css';
import './map.css';
import './panels.css';
import './playground.css';
import { type Job, type Told, work } from './work.js';

/** What a page carries. */
function carried<T>(id: string): T {
  return JSON.parse(document.getElementById(id)?.textContent ?? 'null');
}

/** The same script is the page and its worker. */
if (typeof document === 'undefined') {
  const scope = globalThis as unknown as {
    onmessage: (event: MessageEvent<Job>) => void;
    postMessage: (told: Told) => void;
  };
  scope.onmessage = ({ data }) => void work(data, (told) => scope.postMessage(told));
} else {
  const root = document.getElementById('app');
  if (root !== null) {
    root.replaceChildren();
    render(<App scenarios={scenariosOf(carried('catalogue'))} tour={carried('tour')} />, root);
  }
}
