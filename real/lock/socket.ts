import type { RedisConnection } from './request.js';

interface Stream {
  unref?(): void;
  cork?(): void;
  uncork?(): void;
  destroy(): void;
}

/** The socket below a connection. A Cluster has many and shows none, ioredis-mock has none. */
function streamOf(connection: RedisConnection & { readonly stream?: Stream }): Stream | undefined {
  return connection.stream;
}

/** Lets the process end although a connection is open. */
export function unrefStream(connection: RedisConnection): void {
  streamOf(connection)?.unref?.();
}

/** Ends a connection that a peer may never close. */
export function destroyStream(connection: RedisConnection): void {
  streamOf(connection)?.destroy();
}

/** Somebody who waits for what was held back. */
interface Writer {
  /** It is with the sockets now. */
  onWritten(): void;
}

let corked: Stream[] = [];
let writers: Writer[] = [];

/**
 * Holds back what is written to a connection until this turn of the event loop has nothing more to run, so that the
 * commands of many locks travel in one write.
 */
export function corkForThisTurn(connection: RedisConnection): void {
  const stream = streamOf(connection);
  if (stream?.cork === undefined || corked.includes(stream)) return;
  stream.cork();
  if (corked.push(stream) === 1) process.nextTick(uncorkAll);
}

/** Tells `writer` when what is held back has been written. Returns whether anything is. */
export function afterCork(writer: Writer): boolean {
  if (corked.length === 0) return false;
  writers.push(writer);
  return true;
}

function uncorkAll(): void {
  const streams = corked;
  const waiting = writers;
  corked = [];
  writers = [];
  for (const stream of streams) stream.uncork?.();
  for (const writer of waiting) writer.onWritten();
}
