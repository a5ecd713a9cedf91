import { calls, unknownValue } from './unknown.js';

/** What is known of an answer to `fetch`: that it is one. */
const ANSWER = {
  ok: true,
  status: 200,
  statusText: 'OK',
  text: async () => 'a',
  json: async () => unknownValue(),
  arrayBuffer: async () => new ArrayBuffer(1),
};

/** The same where it has not found what was asked for. */
const NOT_FOUND = { ...ANSWER, ok: false, status: 404, statusText: 'Not Found' };

/** Stands for a server of which nothing is known. To ask it to change something is work; to read from it is not. */
export async function unknownFetch(input: string | URL | Request, init: RequestInit = {}): Promise<Response> {
  init.signal?.throwIfAborted();
  const { method } = input instanceof Request ? input : init;
  const isRead = /^(?:GET|HEAD)$/i.test(method ?? 'GET');
  const answer = isRead && !calls.finds ? NOT_FOUND : ANSWER;
  const ask = unknownValue(answer, 'a', isRead ? 'fetch' : 'post') as typeof fetch;
  return ask(input instanceof Request ? input.url : String(input), init);
}
