import { current } from '../libraries/runtime/owner.js';

const METHODS = ['log', 'info', 'warn', 'error', 'debug', 'trace'] as const;

/** Has simulated processes print nothing, as clients do at each connection that breaks; gives what ends that. */
export function mute(): () => void {
  const before = METHODS.map((name) => [name, console[name]] as const);
  for (const [name, native] of before)
    console[name] = (...given: unknown[]) => {
      if (current.owner === null) native.apply(console, given);
    };
  return () => {
    for (const [name, native] of before) console[name] = native;
  };
}
