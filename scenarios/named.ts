import { InputError } from './input-error.js';

/** Reads the value of a flag or a parameter; an error names it. */
export function named<T>(name: string, parse: (text: string) => T): (text: string) => T {
  return (text) => {
    try {
      return parse(text);
    } catch (error) {
      throw error instanceof InputError ? new InputError(`${name}: ${error.message}`) : error;
    }
  };
}
