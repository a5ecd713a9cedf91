import { OTHER_URL } from './environment.js';
import { calls, oneByOne, requiredValue, unknownValue } from './unknown.js';

/** What has the body of a request as it was sent. */
export const IS_BODY: RegExp = /^(?:rawBody|raw|payload|body)$/;

/** What has the path of a request, for files that match it against an expression. */
const IS_PATH = /^path(?:name)?$/;

/** The name and the text of each part that is not known of an object of which others are: equal ones may be one text. */
export const PARTS: WeakMap<object, string> = new WeakMap();

/** An object of which some parts are known, and every other one stands for what is not known. */
export function partlyKnown(known: Readonly<Record<string, unknown>>, text: string): unknown {
  return new Proxy(
    { ...known },
    {
      get: (target, name) => {
        if (calls.body !== null && name === Symbol.asyncIterator)
          return () => oneByOne([Buffer.from(calls.body?.(text) ?? text)]);
        if (typeof name === 'symbol' || name === 'then' || name === 'toJSON' || Object.hasOwn(target, name))
          return Reflect.get(target, name);
        if (name in Object.prototype) return () => text;
        if (calls.body !== null && name === 'text') return async () => calls.body?.(text);
        if (calls.body !== null && IS_BODY.test(name)) return calls.body(text);
        if (calls.path !== null && IS_PATH.test(name)) return new URL(calls.path(text), OTHER_URL).pathname;
        const required = requiredValue(name, text);
        if (required !== undefined) return required;
        const part = unknownValue({}, text, `.${name}`);
        PARTS.set(part as object, `${name} ${text}`);
        return part;
      },
    },
  );
}
