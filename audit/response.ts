import { EventEmitter } from 'node:events';

/** The answer to a request, as a handler is given it. */
export interface ResponseStub {
  readonly it: unknown;
  /** What was kept with it. */
  readonly locals: Readonly<Record<string, unknown>>;
  /** Resolves when the answer has been sent. */
  readonly ended: Promise<void>;
  end(): void;
  /** Closes the connection before a response was sent. */
  hangUp(): void;
  /** Its status; `null` before it was sent. */
  status(): number | null;
}

/** The status that a returned object says: of a response, or of a batch of messages of which some have failed; `null` for none. */
function statusIn(returned: unknown): number | null {
  if (returned instanceof Response) return returned.status;
  const { statusCode, batchItemFailures: failed } = Object(returned) as Readonly<Record<string, unknown>>;
  if (Array.isArray(failed)) return failed.length > 0 ? 500 : 200;
  return typeof statusCode === 'number' ? statusCode : null;
}

/** Notes what a handler returns, and by which status it answers: that of what it returns, or of what it has sent. */
export function noteAnswer(
  to: { status: number | null; returned: unknown },
  done: Promise<unknown>,
  { status }: Pick<ResponseStub, 'status'>,
): void {
  const note = (returned: unknown): void => {
    to.status = statusIn(returned) ?? status();
  };
  done.then((returned) => {
    to.returned = returned;
    note(returned);
  }, note);
}

/** What handles a request, and does not wait for that, has answered within this, ms of simulated time. */
const ANSWERED_MS = 15_000;

/** What a handler returns; where that is nothing, when it has answered: `(req, res, next) => { handle(req, res).catch(next); }`. */
export async function answered(call: () => Promise<unknown>, { ended, status }: ResponseStub): Promise<unknown> {
  const returned = await call();
  if (returned === undefined && status() === null)
    await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, ANSWERED_MS))]);
  return returned;
}

const SENDS: readonly string[] = ['end', 'json', 'send', 'sendStatus', 'redirect', 'sendFile', 'render'];

const SETS_STATUS: readonly string[] = ['status', 'code', 'sendStatus', 'writeHead'];

/** An answer of which every method returns itself, and that ends by being sent. */
export function responseOf(): ResponseStub {
  const events = new EventEmitter();
  const locals: Record<string, unknown> = {};
  const fields: Record<string, unknown> = {
    statusCode: 200,
    headersSent: false,
    sent: false,
    writableEnded: false,
    writableFinished: false,
    closed: false,
    destroyed: false,
    locals,
  };
  const end = (): unknown => {
    if (fields.writableEnded === true) return it;
    Object.assign(fields, {
      headersSent: true,
      sent: true,
      writableEnded: true,
      writableFinished: true,
      closed: true,
      destroyed: true,
    });
    events.emit('finish');
    events.emit('close');
    return it;
  };
  const it: unknown = new Proxy(fields, {
    get: (_, name) => {
      if (typeof name === 'symbol' || name === 'then') return undefined;
      if (Object.hasOwn(fields, name)) return fields[name];
      if (name === 'raw') return it;
      const own: unknown = Reflect.get(events, name);
      if (typeof own === 'function') return (...given: readonly unknown[]) => own.apply(events, given);
      return (status: unknown) => {
        if (SETS_STATUS.includes(name) && typeof status === 'number') fields.statusCode = status;
        return SENDS.includes(name) ? end() : it;
      };
    },
  });
  const ended = new Promise<void>((resolve) => events.once('close', () => resolve()));
  const hangUp = (): void => {
    Object.assign(fields, { closed: true, destroyed: true });
    events.emit('close');
  };
  const status = (): number | null => (fields.writableEnded === true ? Number(fields.statusCode) : null);
  return { it, locals, ended, end, hangUp, status };
}

/** What makes the answer of a context: `c.json(value, 409)`. */
const MAKES: readonly string[] = ['json', 'text', 'html', 'body', 'newResponse'];

/** What a context has besides its request, where a handler returns the answer that it makes; nothing where it makes none. */
export function makersOf(names: readonly string[]): Readonly<Record<string, unknown>> {
  if (!names.includes('req') || !MAKES.some((it) => names.includes(it))) return {};
  let set = 200;
  const answer = (_: unknown, status: unknown): Response =>
    new Response(null, { status: typeof status === 'number' ? status : set });
  return {
    ...Object.fromEntries(MAKES.map((it) => [it, answer])),
    status: (to: number) => {
      set = to;
    },
  };
}
