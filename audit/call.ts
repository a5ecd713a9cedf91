import { argumentsFor } from './arguments.js';
import type { Callable } from './callables.js';
import type { Given } from './given.js';
import type { Parameter } from './parameter.js';
import { roleOf } from './roles.js';

/** A function of the lock's author, with what it is called on. */
export interface Target {
  readonly it: Callable;
  readonly owner: unknown;
  readonly parameters: readonly Parameter[];
}

/** Calls a function, and gives what it returns; where it takes a callback of Node's style, what that is given. */
export async function callOf({ it, owner, parameters }: Target, given: Given, isRelease = false): Promise<unknown> {
  const returned = (more: Partial<Given> = {}): unknown =>
    it.apply(owner, argumentsFor(parameters, { ...given, ...more }, isRelease));
  if (!takesCallback(parameters)) return await returned();
  return await new Promise((resolve, reject) => {
    const callback = (error: unknown, result: unknown): void => (isNothing(error) ? resolve(result) : reject(error));
    Promise.resolve(returned({ callback })).catch(reject);
  });
}

/** Whether a function tells its result by a callback. */
export function takesCallback(parameters: readonly Parameter[]): boolean {
  return parameters.some((it) => roleOf(it) === 'callback');
}

function isNothing(error: unknown): boolean {
  return error === null || error === undefined || error === false;
}
