import type * as engine from './engine.js';
import { unpacked } from './unpacked.js';

/** What the bundle of the engine exports. */
export type Engine = typeof engine;

let started: Promise<Engine> | undefined;

/** The engine of this page, started when it is asked for first. */
export function startEngine(): Promise<Engine> {
  started ??= (async () => {
    const script = document.createElement('script');
    script.textContent = await unpacked(document.getElementById('engine')?.textContent ?? '').text();
    document.body.append(script);
    return Reflect.get(globalThis, 'lockstepEngine');
  })();
  return started;
}
