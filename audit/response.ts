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
}

const SENDS: readonly string[] = ['end', 'json', 'send', 'sendStatus', 'redirect', 'sendFile', 'render'];

/** An answer of which every method returns itself, and that ends by being sent. */
export function responseOf(): ResponseStub {
  const events = new EventEmitter();
  const locals: Record<string, unknown> = {};
  const fields: Record<string, unknown> = {
    statusCode: 200,
    headersSent: false,
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
      const own: unknown = Reflect.get(events, name);
      if (typeof own === 'function') return (...given: readonly unknown[]) => own.apply(events, given);
      return SENDS.includes(name) ? end : () => it;
    },
  });
  const ended = new Promise<void>((resolve) => events.once('close', () => resolve()));
  const hangUp = (): void => {
    Object.assign(fields, { closed: true, destroyed: true });
    events.emit('close');
  };
  return { it, locals, ended, end, hangUp };
}
