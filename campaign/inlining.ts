import { setFlagsFromString } from 'node:v8';

/**
 * Lets V8 put more of the functions that a hot one calls into its machine code: 3,000 bytes of bytecode in all, in place of 920.
 * An event of the simulator goes through some thirty small functions, and their calls take a tenth of its time. It holds for
 * the whole process, for what is compiled after it, and changes no result.
 */
export function inlineMore(): void {
  setFlagsFromString('--max-inlined-bytecode-size-cumulative=3000');
}
